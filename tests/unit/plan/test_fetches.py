# SPDX-License-Identifier: Apache-2.0
"""Which weights a plan fetches, where to, in which order (D12), and what room they need (P1)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from llmgw.apply.publishing import Publishing
from llmgw.apply.steps import steps_of
from llmgw.decide import Decision, decide
from llmgw.model.ids import ModelName, NodeName
from llmgw.model.node import Node, NodeSettings, NodeState
from llmgw.model.plan import Fetch, FetchWeights, Plan, StartMembers
from llmgw.model.replica import Catalog, ModelSpec, RolloutSpec, ServiceSpec
from llmgw.nodekit import contract
from llmgw.plan.codec import load_plan, plan_document, plan_summary
from llmgw.plan.text import plan_lines, wave_lines
from tests.support.fleets import GB, catalog, fleet, node, profile, service, with_facts
from tests.support.placement_fleets import placed, sentences, where
from tests.support.world import World

QWEN = ModelSpec(ModelName("qwen"), hf_id="Qwen/Qwen3-32B", fetch=True)
COMMIT = "a" * 40


def chat(replicas: int = 1, model: ModelSpec = QWEN, name: str = "chat", **more: Any) -> ServiceSpec:
    return service(name, replicas, (profile(name, model=model, ready_timeout_s=60),), spread="node", **more)


def held(directory: str = "/srv/models", **more: Any) -> contract.Weights:
    path = f"{directory}/models--Qwen--Qwen3-32B/snapshots/{COMMIT}"
    known = {"layout": "hf-cache", "revision": COMMIT, "refs": ("main",), "complete": True, "size_bytes": 65 * GB}
    return contract.Weights("Qwen/Qwen3-32B", path, **{**known, **more})


def local(free_gb: int | None = 500) -> contract.Filesystem:
    free = None if free_gb is None else free_gb * GB
    return contract.Filesystem("/srv", free_bytes=free, directories=("/srv/models",))


def filer(at: str, source: str = "filer:/export", free_gb: int = 500) -> contract.Filesystem:
    return contract.Filesystem(at, source=source, free_bytes=free_gb * GB, shared=True, directories=(f"{at}/models",))


def machine(
    name: str,
    disk: contract.Filesystem | None = None,
    seen: tuple[contract.Weights, ...] = (),
    model_dirs: tuple[str, ...] | None = None,
    **more: Any,
) -> Node:
    disk = disk or local()
    made = node(name, filesystems=(disk,), weights=seen, **more)
    return replace(made, settings=NodeSettings(model_dirs=disk.directories if model_dirs is None else model_dirs))


def fetches(plan: Plan) -> list[Fetch]:
    return [one for wave in plan.waves for step in wave.steps if isinstance(step, FetchWeights) for one in step.fetches]


def decided(wanted: Catalog, *nodes: Node) -> Decision:
    return decide(wanted, fleet(*nodes))


def test_weights_that_no_node_has_are_fetched_before_the_unit_starts() -> None:
    plan = decided(catalog(chat()), machine("n1")).plan
    kinds = [type(step) for step in plan.waves[0].steps]
    assert kinds.index(FetchWeights) < kinds.index(StartMembers)
    assert fetches(plan) == [Fetch(NodeName("n1"), "Qwen/Qwen3-32B", None, "/srv/models", None)]


def test_a_script_is_told_what_is_fetched_too() -> None:
    decision = decide(catalog(chat()), fleet(machine("n1")))
    (told,) = plan_summary(decision.plan)["fetches"]
    assert (told["node"], told["hf_id"], told["directory"]) == ("n1", "Qwen/Qwen3-32B", "/srv/models")


def test_a_model_that_does_not_say_so_is_not_fetched() -> None:
    assert fetches(decided(catalog(chat(model=replace(QWEN, fetch=False))), machine("n1")).plan) == []


@pytest.mark.parametrize(
    ("seen", "fetched"),
    [
        (held(), False),
        (held(complete=None), False),
        (held(complete=False), True),
        (held(revision="b" * 40, refs=("main",)), False),
        (contract.Weights("Qwen3-32B", "/srv/models/Qwen3-32B", layout="directory", complete=True), False),
    ],
    ids=["whole", "nobody could judge", "a half", "another commit of main", "a plain directory"],
)
def test_weights_that_an_engine_can_be_given_are_not_fetched(seen: contract.Weights, *, fetched: bool) -> None:
    assert bool(fetches(decided(catalog(chat()), machine("n1", seen=(seen,))).plan)) is fetched


def test_a_revision_that_is_not_there_is_fetched() -> None:
    model = replace(QWEN, revision="v2")
    assert [
        one.revision for one in fetches(decided(catalog(chat(model=model)), machine("n1", seen=(held(),))).plan)
    ] == ["v2"]


def test_every_node_with_a_disk_of_its_own_fetches_and_the_size_is_as_another_node_has_it() -> None:
    nodes = (machine("n1"), machine("n2"), machine("n3", seen=(held(),), cordoned=True))
    plan = decided(catalog(chat(2)), *nodes).plan
    assert [(one.node, one.size_bytes) for one in fetches(plan)] == [("n1", 65 * GB), ("n2", 65 * GB)]
    assert "* fetch Qwen/Qwen3-32B to /srv/models on n1, n2, 65 GB each" in plan_lines(plan)


def test_of_nodes_that_share_a_filesystem_one_fetches() -> None:
    plan = decided(catalog(chat(3)), *(machine(name, filer(f"/mnt/{name}")) for name in ("n3", "n1", "n2"))).plan
    assert [(one.node, one.directory) for one in fetches(plan)] == [("n1", "/mnt/n1/models")]
    assert "   fetch Qwen/Qwen3-32B to n1:/mnt/n1/models, size unknown" in wave_lines(plan)


def test_two_shares_or_two_directories_of_one_are_two_places() -> None:
    other = replace(filer("/filer"), directories=("/filer/other",))
    nodes = (machine("n1", filer("/filer")), machine("n2", filer("/filer", "other:/export")), machine("n3", other))
    assert [one.node for one in fetches(decided(catalog(chat(3)), *nodes).plan)] == ["n1", "n2", "n3"]


@pytest.mark.parametrize(
    ("seen", "fetched"),
    [("/mnt/b/models", False), ("/mnt/b/elsewhere", True)],
    ids=["where the engine looks", "in another directory of the share"],
)
def test_what_another_node_saw_on_the_share_is_there(seen: str, *, fetched: bool) -> None:
    other = machine("n2", filer("/mnt/b"), (held(seen, mount_point="/mnt/b", shared=True),), cordoned=True)
    plan = decided(catalog(chat()), machine("n1", filer("/mnt/a")), other).plan
    assert bool(fetches(plan)) is fetched


def test_what_a_lost_node_saw_on_the_share_is_not_relied_on() -> None:
    other = machine("n2", filer("/mnt/b"), (held("/mnt/b/models", mount_point="/mnt/b", shared=True),))
    plan = decided(catalog(chat()), machine("n1", filer("/mnt/a")), replace(other, state=NodeState.LOST)).plan
    assert len(fetches(plan)) == 1


def test_a_node_without_model_directories_fetches_to_the_usual_one() -> None:
    assert [one.directory for one in fetches(decided(catalog(chat()), machine("n1", model_dirs=())).plan)] == [
        "/srv/models"
    ]


def test_what_needs_no_fetching_starts_first() -> None:
    quick = chat(model=replace(QWEN, name=ModelName("other"), hf_id="org/other", fetch=False), name="quick")
    plan = decided(catalog(chat(), quick), machine("n1")).plan
    assert [wave.title for wave in plan.waves] == ["start quick/0", "start chat/0"]


def test_two_services_with_one_model_fetch_it_once() -> None:
    plan = decided(catalog(chat(name="chat"), chat(name="draft", priority=1)), machine("n1")).plan
    assert len(fetches(plan)) == 1


def test_what_one_wave_fetched_no_later_one_does() -> None:
    world = World(fleet(machine("n1", filer("/mnt/a")), machine("n2", filer("/mnt/b"))))
    world.apply(catalog(chat(2)))
    nodes = tuple(with_facts(one, replace(one.facts, weights=())) for one in world.fleet.nodes if one.facts)
    changed = service("chat", 2, (profile("chat", model=QWEN, ready_timeout_s=60, env={"A": "1"}),), spread="node")
    plan = decide(catalog(changed), replace(world.fleet, nodes=nodes)).plan
    assert [wave.title for wave in plan.waves] == ["update chat/0", "update chat/1"]
    assert [one.node for one in fetches(plan)] == ["n1"]
    assert isinstance(plan.waves[0].steps[0], FetchWeights)


def test_a_running_replica_is_left_alone_and_weights_come_before_it_is_drained() -> None:
    world = World(fleet(machine("n1")))
    world.apply(catalog(chat()))
    assert decide(catalog(chat()), world.fleet).plan.waves == ()
    found = world.fleet.node("n1")
    assert found is not None
    assert found.facts is not None
    gone = replace(world.fleet, nodes=(with_facts(found, replace(found.facts, weights=())),))
    assert decide(catalog(chat()), gone).plan.waves == ()
    ways = (profile("chat", model=QWEN, ready_timeout_s=60, env={"A": "1"}),)
    changed = service("chat", 1, ways, spread="node", rollout=RolloutSpec(max_surge=0))
    (wave,) = decide(catalog(changed), gone).plan.waves
    assert isinstance(wave.steps[0], FetchWeights)


def test_the_playbook_gets_one_call_a_host_with_all_its_models() -> None:
    other = replace(QWEN, name=ModelName("other"), hf_id="org/other", revision="v1")
    wanted = catalog(chat(), chat(model=other, name="draft"))
    nodes = fleet(machine("n1"))
    decision = decide(wanted, nodes)
    steps = list(steps_of(decision, Publishing(decision, nodes, frozenset({"n1"}))))
    (fetching,) = [step for step in steps if step["kind"] == "fetch"]
    assert fetching["hosts"] == {
        "n1": {
            "directory": "/srv/models",
            "models": [
                {"hf_id": "Qwen/Qwen3-32B", "revision": None},
                {"hf_id": "org/other", "revision": "v1"},
            ],
        }
    }
    assert steps.index(fetching) < next(at for at, step in enumerate(steps) if step["kind"] == "units")


def test_a_stored_plan_is_read_again_as_it_was() -> None:
    plan = decided(catalog(chat(2)), machine("n1"), machine("n2", filer("/filer"))).plan
    assert fetches(plan)
    assert load_plan(json.dumps(plan_document(plan)).encode()) == plan


def test_a_disk_without_room_for_what_would_be_fetched_is_refused() -> None:
    big = replace(QWEN, size_bytes=65 * GB)
    found = placed(catalog(chat(model=big)), fleet(machine("n1", local(40))))
    assert sentences(found, "n1") == ["has 40 GB of free disk on /srv, needs 65"]
    assert len(where(placed(catalog(chat(model=big)), fleet(machine("n1", local(66)))))) == 1


def test_room_elsewhere_on_the_node_does_not_help() -> None:
    large = contract.Filesystem("/large", free_bytes=900 * GB, directories=("/large/models",))
    both = node("n1", filesystems=(local(40), large), weights=())
    settings = NodeSettings(model_dirs=("/srv/models", "/large/models"))
    found = placed(catalog(chat(model=replace(QWEN, size_bytes=65 * GB))), fleet(replace(both, settings=settings)))
    assert sentences(found, "n1") == ["has 40 GB of free disk on /srv, needs 65"]


def test_the_size_that_another_node_tells_counts_as_well() -> None:
    nodes = fleet(machine("n1", local(40)), machine("n2", seen=(held(),), cordoned=True))
    assert sentences(placed(catalog(chat()), nodes), "n1") == ["has 40 GB of free disk on /srv, needs 65"]


def test_where_they_are_or_the_size_or_the_disk_is_unknown_there_is_room() -> None:
    big = replace(QWEN, size_bytes=65 * GB)
    for model, machines in (
        (big, machine("n1", local(1), (held(),))),
        (QWEN, machine("n1", local(1))),
        (big, machine("n1", local(None))),
        (replace(big, fetch=False), machine("n1", local(1))),
    ):
        assert len(where(placed(catalog(chat(model=model)), fleet(machines)))) == 1


def test_what_a_fetch_brought_already_needs_no_room_again() -> None:
    big = replace(QWEN, size_bytes=65 * GB)
    half = held(complete=False, size_bytes=30 * GB)
    assert len(where(placed(catalog(chat(model=big)), fleet(machine("n1", local(40), (half,)))))) == 1


def test_room_on_a_share_is_promised_once_for_the_fleet() -> None:
    big = replace(QWEN, size_bytes=65 * GB)
    other = replace(big, name=ModelName("other"), hf_id="org/other")
    nodes = fleet(machine("n1", filer("/mnt/a", free_gb=100)), machine("n2", filer("/mnt/b", free_gb=100)))
    assert len(where(placed(catalog(chat(2, big)), nodes))) == 2
    assert list(where(placed(catalog(chat(1, big), chat(1, other, "draft")), nodes))) == ["chat/0"]
