# SPDX-License-Identifier: Apache-2.0
"""What would give a replica a place: each kind is found, said in words, and works when somebody does it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmgw.fleet.devices import devices_of
from llmgw.model.fabric import Verdict
from llmgw.model.ids import ModelName
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.model.replica import Catalog, FleetSpec, ModelSpec, ProfileSpec
from llmgw.model.why import Cost, Relaxation
from llmgw.nodekit import contract
from llmgw.placement.assign import place
from llmgw.placement.why import relax
from llmgw.placement.why.explain import explain
from llmgw.placement.why.relaxations import MOST
from tests.support.fabric_fleets import UUID
from tests.support.fleets import GB, catalog, facts, fleet, node, profile, service, with_facts
from tests.support.joined_machines import Machine, fleet_of
from tests.support.memory_models import architecture
from tests.support.operator import done
from tests.support.world import World

H200, L40S = "h200-141g", "l40s-45g"


def told(wanted: Catalog, seen: FleetSnapshot, name: str = "chat", number: int | None = None) -> list[Relaxation]:
    """The relaxations, each tried by an operator on every one of its nodes; moves are not his to make."""
    why = explain(wanted, place(wanted, seen), name, number)
    for one in why.relaxations:
        for where in one.nodes[:1] if one.together else one.nodes:
            if one.kind != "move":
                assert why.subject in place(*done(one, where, wanted, seen)).board.assigned, (one.sentence, where)
    return list(why.relaxations)


def kinds(found: list[Relaxation]) -> list[str]:
    return [one.kind for one in found]


def sentences(found: list[Relaxation]) -> list[str]:
    return [one.sentence for one in found]


def one(**more: Any) -> Catalog:
    """A service of one replica by one profile."""
    return catalog(service(replicas=1, profiles=(profile(**more),)))


def test_an_uncordoned_node_and_a_drain_that_ends() -> None:
    found = told(one(), fleet(node("n1", cordoned=True), node("n2", drained=True), node("n3", cordoned=True)))
    assert sentences(found) == ["uncordon n1 or n3", "end the drain of n2"]
    assert {each.cost for each in found} == {Cost.SETTING}
    assert found[0].nodes == ("n1", "n3")
    assert found[0].steps[0].values == {"llmgw_cordoned": False}


def test_many_nodes_are_named_by_the_first_of_them() -> None:
    found = told(one(), fleet(*(node(f"n{number}", cordoned=True) for number in range(9))))
    assert sentences(found) == ["uncordon n0, n1 or 7 more"]
    assert len(found[0].nodes) == 9


def test_a_node_that_does_not_answer() -> None:
    found = told(one(), fleet(node("n1", state=NodeState.UNREACHABLE)))
    assert sentences(found) == ["make n1 answer"]
    assert found[0].cost is Cost.NODE_WORK


def test_nothing_is_promised_of_a_node_that_nobody_knows() -> None:
    unseen = replace(node("n1"), state=NodeState.UNSEEN, facts=None, devices=None)
    assert told(one(), fleet(unseen)) == []


def test_a_label_on_a_node_or_less_in_the_selector() -> None:
    found = told(one(node_selector={"pool": "prod"}), fleet(node("n1", labels={"pool": "dev"}), node("n2")))
    assert sentences(found) == [
        "label pool=prod on n2",
        "label pool=prod on n1",
        "take pool=prod out of node_selector",
    ]
    assert found[0].steps[0].values == {"pool": "prod"}
    assert [each.caution for each in found[:2]] == [
        "only if the node really is pool=prod",
        "only if the node really is pool=prod; pool=dev of the node is then gone",
    ]
    assert {each.cost for each in found} == {Cost.PROMISE}
    assert found[2].steps[0].entry == "profiles.cpu"


def test_less_host_memory_by_the_least_that_helps() -> None:
    found = told(one(min_memory_bytes=96 * GB), fleet(node("n1", memory_gb=48), node("n2", memory_gb=64)))
    assert sentences(found) == ["lower min_memory_gb from 96 to 64"]
    step = found[0].steps[0]
    assert (step.has, step.needs, step.unit, step.values) == (64 * GB, 96 * GB, "bytes", {"min_memory_gb": 64.0})
    assert found[0].nodes == ("n2",)


def test_less_host_memory_counts_for_the_replicas_of_the_profile_that_are_there() -> None:
    wanted = catalog(service(replicas=2, profiles=(profile(min_memory_bytes=40 * GB),)))
    assert sentences(told(wanted, fleet(node("n1", memory_gb=64)))) == ["lower min_memory_gb from 40 to 32"]


def test_replicas_that_come_first_get_their_room_first() -> None:
    wanted = catalog(service(replicas=3, profiles=(profile(min_memory_bytes=40 * GB),)))
    found = told(wanted, fleet(node("n1"), node("n2", cordoned=True), node("n3", cordoned=True)), number=2)
    assert "uncordon n2 and n3" in sentences(found)
    assert next(each for each in found if each.kind == "uncordon").together


def _with_disk(name: str, free_gb: int) -> Node:
    return node(name, filesystems=(contract.Filesystem("/", free_bytes=free_gb * GB),))


def test_disk_is_freed_or_less_is_asked_for() -> None:
    found = told(one(min_free_disk_bytes=100 * GB), fleet(_with_disk("n1", 59), _with_disk("n2", 20)))
    assert sentences(found) == ["free 41 GB of disk on n1", "lower min_free_disk_gb from 100 to 59"]
    assert [each.cost for each in found] == [Cost.NODE_WORK, Cost.PROMISE]
    assert found[1].caution == "does the profile ask for 100 GB on purpose?"


def test_a_little_less_disk_is_a_matter_of_taste() -> None:
    found = told(one(min_free_disk_bytes=100 * GB), fleet(_with_disk("n1", 95)))
    assert [(each.kind, each.cost, each.caution) for each in found] == [
        ("min_free_disk_gb", Cost.SETTING, None),
        ("free-disk", Cost.NODE_WORK, None),
    ]


def test_an_engine_is_installed_or_mended() -> None:
    broken = contract.Engine("sim", ("/opt/sim",), runnable=False, reason="no such library")
    found = told(one(), fleet(node("n1", engines=()), node("n2", engines=(broken,))))
    assert sentences(found) == ["install sim on n1", "mend sim on n2"]


def test_a_driver_is_brought_to_the_cuda_that_the_engine_needs() -> None:
    engines = (contract.Engine("vllm", ("/opt/vllm",), "0.25.0+cu130", runnable=True),)
    old = node("n1", gpus=1, engines=engines, driver=contract.GpuDriver(driver_version="550.1", cuda_version="12.4"))
    found = told(one(engine="vllm", classes=(H200,), gpus=1), fleet(old))
    assert kinds(found) == ["driver"]
    assert found[0].sentence.startswith("update the driver of n1 to CUDA 13")


def test_another_class_that_has_room() -> None:
    found = told(one(classes=(H200,), gpus=2), fleet(node("n1", gpus=2, device_class=L40S), node("n2", gpus=1)))
    assert sentences(found)[0] == "add l40s-45g to the devices"
    assert found[0].steps[0].values == {"devices": "h200-141g, l40s-45g"}
    assert found[0].nodes == ("n1",)


def test_a_slice_is_no_class_for_several_devices() -> None:
    seen = fleet_of(Machine("n1", ("a100-80g-mig-3g.40gb",)))
    assert kinds(told(one(classes=(H200,), gpus=2), seen)) == []
    assert kinds(told(one(classes=(H200,), gpus=1), seen)) == ["device-class"]


def test_fewer_devices_for_a_replica() -> None:
    found = told(one(classes=(H200,), gpus=4, tensor_parallel=4), fleet(node("n1", gpus=3)))
    assert sentences(found) == ["serve with 2 instead of 4 devices"]
    assert found[0].steps[0].values == {"gpus": 2, "tensor_parallel": 2}
    assert found[0].cost is Cost.CHANGES


def test_what_runs_and_loses_its_place_by_fewer_devices_gets_one_first() -> None:
    wanted = catalog(service(replicas=2, profiles=(profile(classes=(H200,), gpus=4, tensor_parallel=4),)))
    world = World(fleet(node("n1", gpus=4), node("n2", gpus=2)))
    world.apply(wanted)
    assert sentences(told(wanted, world.fleet)) == ["serve with 2 instead of 4 devices"]


def test_a_stranger_is_got_off_a_card_and_a_sick_card_is_mended() -> None:
    held = contract.Finding("foreign-memory", "block", "process 77 (python) holds 20480 MiB", "Stop it.", "GPU-n1-1")
    sick = contract.Finding("ecc-uncorrected", "block", "7 uncorrected memory errors", None, "GPU-n2-0")
    seen = fleet(node("n1", gpus=2, findings=(held,)), node("n2", gpus=2, findings=(sick,)))
    found = told(one(classes=(H200,), gpus=2), seen)
    assert sentences(found)[:2] == [
        "free card 1 of n1 (1: process 77 (python) holds 20480 MiB)",
        "mend card 0 of n2 (0: 7 uncorrected memory errors)",
    ]
    assert found[0].steps[0].how == "Stop it."


def test_the_spread_is_dropped_or_the_domain_of_a_node_is_told() -> None:
    wanted = catalog(service(replicas=2, spread="rack"))
    # Cordoned nodes take no share, so that the one rack that has some gets all of the service.
    seen = fleet(node("n1", labels={"rack": "a"}, memory_gb=1), node("n2"))
    bigger = catalog(service(replicas=2, spread="rack", profiles=(profile(min_memory_bytes=1 * GB),)))
    assert place(wanted, seen).placement.unplaced == ()
    found = told(bigger, seen)
    assert sentences(found)[0] == "drop the spread by rack"
    assert sentences(found)[-1] == "label rack on n2"


def test_the_port_range_is_widened_by_what_it_takes() -> None:
    wanted = replace(one(), fleet=FleetSpec((18000, 18001)))
    system = contract.System(hostname="n1", journal=True, listening_ports=(18000, 18001, 18002))
    found = told(wanted, fleet(with_facts(node("n1"), facts("n1", system=system))))
    assert sentences(found) == ["widen port_range to 18000-18003"]
    assert found[0].steps[0].entry == "fleet"


def test_one_replica_fewer_of_a_service_that_is_not_more_important() -> None:
    first = catalog(service("batch", 2, (profile("batch", classes=(H200,), gpus=1),)))
    world = World(fleet(node("n1", gpus=2)))
    world.apply(first)
    both = catalog(*first.services, service("chat", 1, (profile("chat", classes=(H200,), gpus=1),)))
    found = told(both, world.fleet)
    fewer = next(each for each in found if each.kind == "fewer-replicas")
    assert fewer.sentence == "1 instead of 2 replicas of batch"
    assert fewer.caution == "batch/1 on n1 is stopped"
    assert (fewer.cost, fewer.steps[0].entry) == (Cost.TAKES, "services.batch")
    important = replace(
        both, services=tuple(replace(each, priority=int(each.name == "batch")) for each in both.services)
    )
    assert "fewer-replicas" not in kinds(told(important, world.fleet))


def test_a_higher_priority_says_who_then_has_no_place() -> None:
    first = catalog(service("batch", 1, (profile("batch", classes=(H200,), gpus=2),)))
    world = World(fleet(node("n1", gpus=2)))
    world.apply(first)
    both = catalog(*first.services, service("chat", 1, (profile("chat", classes=(H200,), gpus=2),)))
    raised = next(each for each in told(both, world.fleet) if each.kind == "priority")
    assert raised.sentence == "raise the priority of chat from 0 to 1"
    assert raised.caution == "batch/0 then has no place"


def test_one_move_frees_it() -> None:
    small, large = profile("small", classes=(H200,), gpus=1), profile("large", classes=(H200,), gpus=2)
    world = World(fleet(node("n1", gpus=2), node("n2", gpus=2)))
    world.apply(catalog(service("a", 2, (small,), spread="node")))
    both = catalog(service("a", 2, (small,)), service("chat", 1, (large,)))
    moved = next(each for each in told(both, world.fleet) if each.kind == "move")
    assert moved.sentence in ("move a/0 from n1 to n2", "move a/1 from n2 to n1")
    assert moved.steps[0].values["replica"] in ("a/0", "a/1")
    assert moved.cost is Cost.TAKES


def test_two_things_are_needed_where_two_constraints_fail() -> None:
    found = told(one(min_memory_bytes=96 * GB), fleet(node("n1", memory_gb=64, cordoned=True)))
    assert sentences(found) == ["uncordon n1, and lower min_memory_gb from 96 to 64"]
    assert [step.kind for step in found[0].steps] == ["uncordon", "min_memory_gb"]


def test_no_relaxation_is_told_where_one_of_the_constraints_has_no_remedy() -> None:
    assert told(one(engine="sim", nodes=2, classes=(H200,), gpus=1), fleet(node("n1", gpus=1, cordoned=True))) == []


def test_what_costs_least_comes_first_and_there_are_never_too_many() -> None:
    wanted = one(min_memory_bytes=50 * GB, min_free_disk_bytes=100 * GB)
    seen = fleet(
        node("n1", memory_gb=40),
        node("n2", cordoned=True),
        node("n3", engines=()),
        node("n4", drained=True),
        node("n5", state=NodeState.UNREACHABLE),
        _with_disk("n6", 10),
    )
    found = told(wanted, seen)
    order = list(Cost)
    costs = [order.index(each.cost) for each in found]
    assert costs == sorted(costs)
    assert 4 < len(found) <= MOST


def _known_model(name: str, gpus: int) -> Node:
    """A node that holds Qwen3-32B, 65.5 GB of it, beside 140 GiB cards."""
    weights = contract.Weights(
        "Qwen/Qwen3-32B",
        "/hf/snapshots/c",
        layout="hf-cache",
        complete=True,
        tensor_bytes=65_524_246_528,
        architecture=architecture("Qwen3-32B"),
    )
    engines = (contract.Engine("vllm", ("/opt/vllm",), "0.24.0", runnable=True),)
    return node(name, gpus, weights=(weights,), engines=engines)


def test_a_shorter_context_or_more_devices_where_a_request_does_not_fit_the_memory() -> None:
    model = ModelSpec(ModelName("qwen"), hf_id="Qwen/Qwen3-32B")
    wanted = one(engine="vllm", classes=(H200,), gpus=1, model=model, max_model_len=400_000)
    found = told(wanted, fleet(_known_model("n1", 2), _known_model("n2", 1)))
    context = next(each for each in found if each.kind == "max_model_len")
    assert context.sentence == "lower max_model_len from 400000 to 40960", "what the model can at most"
    assert context.steps[0].values == {"max_model_len": 40960}
    assert context.nodes == ("n1", "n2")
    more = next(each for each in found if each.kind == "more-devices")
    assert (more.sentence, more.nodes) == ("serve with 2 instead of 1 devices", ("n1",))


def _pair(**more: Any) -> ProfileSpec:
    values: dict[str, Any] = {"classes": (H200,), "gpus": 2, "tensor_parallel": 2, "nodes": 2, "pipeline_parallel": 2}
    return profile("pair", engine="vllm", **(values | more))


def test_what_several_pools_ask_for_is_told_once_with_all_nodes_of_the_replica() -> None:
    seen = fleet_of(*(Machine(f"n{number}", (L40S, L40S), fabric=f"ib-{number // 3}") for number in range(6)))
    found = told(catalog(service(replicas=1, profiles=(_pair(),))), seen)
    assert sentences(found) == ["add l40s-45g to the devices"]
    assert found[0].nodes == ("n0", "n1")
    assert found[0].together


def test_sizes_that_divide_the_heads_are_offered_next_to_the_one_that_does_not() -> None:
    model = ModelSpec(ModelName("qwen"), hf_id="Qwen/Qwen3-32B")
    wanted = one(engine="vllm", classes=(H200,), gpus=3, tensor_parallel=3, model=model)
    seen = fleet(_known_model("n1", 4))
    found = told(wanted, seen)
    assert sentences(found) == [
        "serve with tensor_parallel 4 and 4 devices",
        "serve with tensor_parallel 2 and 2 devices",
    ]
    assert found[0].steps[0].values == {"gpus": 4, "tensor_parallel": 4}
    failing = explain(wanted, place(wanted, seen), "chat").nodes[0].failing
    assert failing[0].message.endswith("does not divide (1, 2, 4, 8, 16 do)")


def test_another_class_for_a_size_that_seldom_divides_the_heads_says_so() -> None:
    found = told(
        one(engine="vllm", classes=(H200,), gpus=3, tensor_parallel=3),
        fleet(
            node("n1", gpus=4, device_class=L40S, engines=(contract.Engine("vllm", ("/v",), "0.24.0", runnable=True),))
        ),
    )
    assert "its attention heads are unknown, and 3 seldom divides them" in (found[0].caution or "")


def test_nodes_of_one_replica_are_opened_together() -> None:
    cards = (H200, H200)
    flags = {"llmgw_cordoned": True}
    seen = fleet_of(
        Machine("n1", cards, fabric="ib-a", variables=flags), Machine("n2", cards, fabric="ib-a", variables=flags)
    )
    found = told(catalog(service(replicas=1, profiles=(_pair(),))), seen)
    assert sentences(found) == ["uncordon n1 and n2"]
    assert found[0].together


def test_a_fabric_that_is_not_proved() -> None:
    seen = fleet_of(Machine("n1", (H200, H200), fabric="ib-a"), Machine("n2", (H200, H200), fabric="ib-a"))
    assert place(catalog(service(replicas=1, profiles=(_pair(),))), seen).placement.unplaced == ()
    doubtful = tuple(
        replace(each, ports=tuple(replace(port, verdict=Verdict.UNVERIFIED, evidence=()) for port in each.ports or ()))
        for each in seen.nodes
    )
    found = told(catalog(service(replicas=1, profiles=(_pair(),))), replace(seen, nodes=doubtful))
    assert sentences(found) == ["prove fabric ib-a on n1 and n2"]
    assert found[0].steps[0].values == {"fabric": "ib-a"}


def test_imex_that_is_down_on_a_node_of_a_domain() -> None:
    cards = ("gb200-186g",) * 2
    seen = fleet_of(
        Machine("n1", cards, domain=UUID),
        Machine("n2", cards, domain=UUID),
        Machine("n3", cards, domain=UUID, ready=False),
    )
    wanted = catalog(service(replicas=1, profiles=(_pair(classes=("gb200-186g",)),)))
    busy = place(wanted, seen).placement
    assert busy.unplaced == ()
    short = replace(seen, nodes=tuple(replace(each, cordoned=each.name == "n1") for each in seen.nodes))
    found = told(wanted, short)
    assert kinds(found)[0] == "uncordon"
    imex = next(each for each in found if "imex" in each.kind)
    assert imex.sentence.startswith("get IMEX up on n3 for NVLink domain 5f2c01aa")


def test_one_large_node_instead_of_several() -> None:
    seen = fleet_of(Machine("n1", (H200,) * 4))
    found = told(catalog(service(replicas=1, profiles=(_pair(),))), seen)
    assert sentences(found) == ["serve on 1 node with 4 devices instead of 2 with 2"]


def test_kinds_are_ordered_and_every_function_has_its_constraints() -> None:
    assert len(relax.ORDER) == len(set(relax.ORDER))
    assert all(fixes for fixes in relax.FIXES.values())


@pytest.mark.parametrize("size", [2, 3])
def test_a_card_that_is_missing_is_nothing_to_mend(size: int) -> None:
    seen = fleet(node("n1", gpus=1))
    assert devices_of(facts("n1", 1)) is not None
    assert kinds(told(one(classes=(H200,), gpus=size, tensor_parallel=size), seen)) == ["fewer-devices"]
