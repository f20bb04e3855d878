# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.decide import Options, decide
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.model.plan import ActionKind, Publish
from llmgw.model.replica import Catalog, ProfileSpec, RolloutSpec
from llmgw.nodekit import contract
from llmgw.plan.text import plan_lines
from tests.support.fleets import catalog, facts, fleet, node, profile, service, with_facts
from tests.support.world import World


def kinds(world: World, wanted: Catalog, options: Options | None = None) -> dict[str, str]:
    return {f"{one.replica}": one.kind.value for one in decide(wanted, world.fleet, options).plan.actions}


def three_nodes() -> FleetSnapshot:
    return fleet(node("n1"), node("n2"), node("n3"))


def test_replicas_spread_over_nodes_by_themselves() -> None:
    world = World(three_nodes())
    world.apply(catalog(service(replicas=3)))
    assert world.running("chat") == ["chat/0@n1", "chat/1@n2", "chat/2@n3"]
    assert world.routed("chat") == world.running("chat")


def test_a_second_apply_has_nothing_to_do() -> None:
    world = World(three_nodes())
    wanted = catalog(service(replicas=3), service("other", replicas=1))
    world.apply(wanted)
    plan = decide(wanted, world.fleet).plan
    assert not plan.changes
    assert "Nothing to do" in plan_lines(plan)[-1]


def test_scaling_up_starts_only_the_new_replicas() -> None:
    world = World(three_nodes())
    world.apply(catalog(service(replicas=2)))
    world.apply(catalog(service(replicas=4)))
    assert sorted(world.restarted) == ["llmgw-chat.2.0.service", "llmgw-chat.3.0.service"]
    assert len(world.routed("chat")) == 4


def test_scaling_down_stops_the_highest_numbers_after_draining_them() -> None:
    world = World(three_nodes())
    world.apply(catalog(service(replicas=3)))
    decision = world.apply(catalog(service(replicas=1)))
    drain, stop = decision.plan.waves[0].steps
    assert isinstance(drain, Publish)
    assert drain.drain == ("chat/1@n2", "chat/2@n3")
    assert world.running("chat") == world.routed("chat") == ["chat/0@n1"]
    assert stop != drain


def test_an_emptied_services_list_takes_everything_down() -> None:
    world = World(three_nodes())
    world.apply(catalog(service(replicas=3)))
    world.apply(catalog())
    assert world.running("chat") == []
    assert not decide(catalog(), world.fleet).plan.changes


def test_a_changed_argument_restarts_only_the_units_of_that_service() -> None:
    world = World(three_nodes())
    other = service("other", replicas=2)
    world.apply(catalog(service(replicas=3), other))
    world.apply(catalog(service(replicas=3, profiles=(profile(args=("--ttft-ms", "5")),)), other))
    assert sorted(world.restarted) == [f"llmgw-chat.{number}.0.service" for number in range(3)]


def test_a_rollout_in_place_never_has_more_than_max_unavailable_out_of_the_routes() -> None:
    fewest = []
    world = World(three_nodes(), watch=lambda one: fewest.append(len(one.routed("chat"))))
    rollout = RolloutSpec(max_unavailable=2)
    world.apply(catalog(service(replicas=6, rollout=rollout)))
    fewest.clear()
    world.apply(catalog(service(replicas=6, rollout=rollout, profiles=(profile(args=("--x",)),))))
    assert min(fewest) == 4
    assert len(world.restarted) == 6


def test_losing_a_node_moves_only_its_replicas_and_its_return_moves_nothing_back() -> None:
    world = World(three_nodes())
    wanted = catalog(service(replicas=3), service("other", replicas=3))
    world.apply(wanted)
    world.state("n2", NodeState.LOST)
    decision = world.apply(wanted)
    assert {one.replica for one in decision.plan.actions if one.kind is ActionKind.MOVE} == {"chat/1", "other/1"}
    assert decision.plan.moves == 2
    assert len(world.restarted) == 2
    stayed = [unit for unit in world.running("chat") if not unit.endswith("@n2")]
    world.state("n2", NodeState.OK)
    back = world.apply(wanted)
    assert {one.kind for one in back.plan.actions} == {ActionKind.KEEP, ActionKind.STOP}
    assert world.restarted == []
    assert world.running("chat") == stayed


def test_an_unreachable_node_is_left_alone_and_its_replicas_count_as_running() -> None:
    world = World(three_nodes())
    wanted = catalog(service(replicas=3))
    world.apply(wanted)
    world.state("n2", NodeState.UNREACHABLE)
    plan = decide(wanted, world.fleet).plan
    assert not plan.changes
    assert list(plan.untouched) == ["n2"]
    changed = decide(catalog(service(replicas=3, profiles=(profile(args=("--x",)),))), world.fleet)
    assert {unit.node for unit in changed.units} == {"n1", "n3"}


def test_mass_loss_freezes_what_runs_until_it_is_allowed() -> None:
    world = World(three_nodes())
    wanted = catalog(service(replicas=3))
    world.apply(wanted)
    for name in ("n2", "n3"):
        world.state(name, NodeState.LOST)
    plan = decide(wanted, world.fleet).plan
    assert plan.frozen is not None
    assert plan.moves == 0
    assert decide(wanted, world.fleet, Options(allow_mass_loss=True)).plan.moves == 2


def test_a_drained_node_gives_its_replicas_away_and_stops_them() -> None:
    world = World(three_nodes())
    wanted = catalog(service(replicas=3))
    world.apply(wanted)
    drained = tuple(replace(one, drained=True) if one.name == "n1" else one for one in world.fleet.nodes)
    world.fleet = replace(world.fleet, nodes=drained)
    world.apply(wanted)
    assert [one.partition("@")[2] for one in world.running("chat")] == ["n2", "n2", "n3"]
    assert world.units("n1") == ()


def test_a_cordoned_node_keeps_what_runs_and_takes_nothing_new() -> None:
    world = World(fleet(node("n1"), node("n2")))
    world.apply(catalog(service(replicas=2)))
    cordoned = tuple(replace(one, cordoned=True) if one.name == "n1" else one for one in world.fleet.nodes)
    world.fleet = replace(world.fleet, nodes=cordoned)
    world.apply(catalog(service(replicas=4)))
    assert [one.partition("@")[2] for one in world.running("chat")].count("n1") == 1


def test_devices_are_given_once_and_named_by_uuid() -> None:
    wanted = catalog(service(replicas=3, profiles=(profile("g", classes=("h200-141g",), gpus=2),)))
    decision = decide(wanted, fleet(node("n1", gpus=4), node("n2", gpus=2)))
    devices = [device for one in decision.placement.assignments for device in one.leader.devices]
    assert len(devices) == len(set(devices)) == 6
    assert all(device.startswith("GPU-") for device in devices)


def test_a_small_replica_goes_where_fewest_devices_stay_free() -> None:
    wanted = catalog(service(replicas=1, profiles=(profile("g", classes=("h200-141g",), gpus=1),)))
    decision = decide(wanted, fleet(node("n1", gpus=8), node("n2", gpus=2)))
    assert decision.placement.assignments[0].leader.node == "n2"


def test_a_blocked_device_gives_its_replica_away_and_takes_nothing() -> None:
    world = World(fleet(node("n1", gpus=2)))
    wanted = catalog(service(replicas=1, profiles=(profile("g", classes=("h200-141g",), gpus=1),)))
    before = world.apply(wanted).placement.assignments[0].leader.devices[0]
    sick = contract.Finding("ecc-uncorrected", "block", "2 uncorrected ECC errors", subject=before)
    one = world.fleet.nodes[0]
    assert one.facts is not None
    world.fleet = replace(world.fleet, nodes=(with_facts(one, replace(one.facts, findings=(sick,))),))
    after = world.apply(wanted)
    assert after.placement.assignments[0].leader.devices[0] != before
    assert "2 uncorrected ECC errors" in "\n".join(plan_lines(after.plan))


@pytest.mark.parametrize(
    ("one", "wanted", "constraint", "says"),
    [
        (node("n1", memory_gb=8), profile(min_memory_bytes=24 * 10**9), "memory", "has 8 GB of memory, needs 24"),
        (node("n1"), profile(classes=("h200-141g",), gpus=1), "class", "needs h200-141g, has no device"),
        (node("n1", gpus=1), profile(classes=("h200-141g",), gpus=2), "devices", "has 1 free of 1 h200-141g, needs 2"),
        (node("n1"), profile(node_selector={"rack": "r1"}), "labels", "needs label rack=r1, has no such label"),
        (node("n1", cordoned=True), profile(), "cordon", "n1 is cordoned"),
        (node("n1"), profile(engine="mystery"), "engine-support", "this version of llmgw cannot start mystery"),
        (node("n1", engines=()), profile(), "engine", "sim is not installed"),
        (node("n1", state=NodeState.UNSEEN), profile(), "node-state", "has no facts yet"),
        (
            node("n1", filesystems=(contract.Filesystem("/", free_bytes=5 * 10**9),)),
            profile(min_free_disk_bytes=9 * 10**9),
            "disk",
            "has 5 GB of free disk on /, needs 9",
        ),
    ],
)
def test_every_constraint_says_what_failed_and_by_how_much(
    one: Node, wanted: ProfileSpec, constraint: str, says: str
) -> None:
    decision = decide(catalog(service(replicas=1, profiles=(wanted,))), fleet(one))
    (unplaced,) = decision.placement.unplaced
    found = {rejection.constraint: rejection.message for rejection in unplaced.rejections}
    assert says in found[constraint]
    assert says.removeprefix("n1 ") in "\n".join(plan_lines(decision.plan))


def test_unknown_memory_is_not_small() -> None:
    decision = decide(
        catalog(service(replicas=1, profiles=(profile(min_memory_bytes=10**12),))), fleet(node("n1", memory_gb=None))
    )
    assert not decision.placement.unplaced


def test_memory_is_promised_only_once() -> None:
    wanted = catalog(service(replicas=3, profiles=(profile(min_memory_bytes=30 * 10**9),)))
    assert len(decide(wanted, fleet(node("n1", memory_gb=64))).placement.unplaced) == 1


def test_the_next_profile_is_taken_where_the_preferred_one_does_not_fit() -> None:
    wanted = catalog(service(replicas=2, profiles=(profile("gpu", classes=("h200-141g",), gpus=1), profile("cpu"))))
    decision = decide(wanted, fleet(node("n1", gpus=1)))
    assert [one.profile.name for one in decision.placement.assignments] == ["gpu", "cpu"]


def test_spread_gives_no_rack_more_than_its_share() -> None:
    nodes = [node(f"n{number}", labels={"rack": "a" if number < 4 else "b"}) for number in range(1, 5)]
    decision = decide(catalog(service(replicas=4, spread="rack")), fleet(*nodes))
    racks = [("a" if one.leader.node < "n4" else "b") for one in decision.placement.assignments]
    assert sorted(racks) == ["a", "a", "b", "b"]


def test_a_limit_freezes_every_other_node() -> None:
    world = World(three_nodes())
    world.apply(catalog(service(replicas=3)))
    changed = catalog(service(replicas=3, profiles=(profile(args=("--x",)),)))
    decision = decide(changed, world.fleet, Options(limit=frozenset({"n1", "gw"})))
    assert {unit.node for unit in decision.units} == {"n1"}
    assert sorted(decision.plan.untouched) == ["n2", "n3"]


def test_unreadable_facts_hold_back_what_may_run_where_we_cannot_see() -> None:
    hidden = replace(
        node("n2", state=NodeState.UNSEEN),
        facts=None,
        devices=None,
        findings=(contract.Finding("facts-unreadable", "warn", "cut off"),),
    )
    decision = decide(catalog(service(replicas=2)), fleet(node("n1"), hidden))
    assert [one.held is not None for one in decision.placement.unplaced] == [True, True]


def test_units_on_a_node_whose_engines_could_not_be_read_are_left_as_they_are() -> None:
    world = World(fleet(node("n1")))
    wanted = catalog(service(replicas=1))
    world.apply(wanted)
    one = world.fleet.nodes[0]
    assert one.facts is not None
    world.fleet = replace(world.fleet, nodes=(with_facts(one, replace(one.facts, engines=None)),))
    plan = decide(wanted, world.fleet).plan
    assert not plan.changes
    assert "n1" in plan.untouched


def test_an_engine_whose_version_cannot_be_told_now_does_not_restart_its_replicas() -> None:
    world = World(fleet(node("n1")))
    wanted = catalog(service(replicas=1))
    world.apply(wanted)
    one = world.fleet.nodes[0]
    assert one.facts is not None
    mute = tuple(replace(engine, version=None) for engine in one.facts.engines or ())
    world.fleet = replace(world.fleet, nodes=(with_facts(one, replace(one.facts, engines=mute)),))
    assert not decide(wanted, world.fleet).plan.changes


def test_an_upgraded_engine_restarts_its_replicas() -> None:
    world = World(fleet(node("n1")))
    wanted = catalog(service(replicas=1))
    world.apply(wanted)
    one = world.fleet.nodes[0]
    assert one.facts is not None
    newer = tuple(replace(engine, version="9") for engine in one.facts.engines or ())
    world.fleet = replace(world.fleet, nodes=(with_facts(one, replace(one.facts, engines=newer)),))
    assert kinds(world, wanted) == {"chat/0": "update", "chat/1": "stand-in"}


def test_a_stopped_replica_is_started_again_and_an_edited_one_is_mended() -> None:
    world = World(three_nodes())
    wanted = catalog(service(replicas=3))
    world.apply(wanted)
    world.change("llmgw-chat.0.0.service", lambda unit: replace(unit, active_state="failed", sub_state="failed"))
    world.change("llmgw-chat.1.0.service", lambda unit: replace(unit, edited=True, actual_text_digest="sha256:other"))
    assert kinds(world, wanted) == {"chat/0": "start", "chat/1": "rewrite", "chat/2": "keep"}
    world.apply(wanted)
    assert kinds(world, wanted) == dict.fromkeys(("chat/0", "chat/1", "chat/2"), "keep")


def test_routes_are_published_where_a_gateway_has_none_even_if_no_unit_changes() -> None:
    world = World(three_nodes())
    wanted = catalog(service(replicas=2))
    world.apply(wanted)
    world.fleet = replace(world.fleet, gateways=tuple(replace(one, bundle=None) for one in world.fleet.gateways))
    plan = decide(wanted, world.fleet).plan
    assert [wave.title for wave in plan.waves] == ["publish routes to gw"]


def test_the_generation_grows_above_the_highest_ever_seen() -> None:
    seen = replace(facts("n1"), generation=41)
    decision = decide(catalog(service(replicas=1)), fleet(with_facts(node("n1"), seen)))
    assert decision.plan.generation == 42


def test_a_node_that_cannot_tell_its_units_gets_nothing_and_is_said_to() -> None:
    blind = node("n1", units=None)
    decision = decide(catalog(service(replicas=1)), fleet(blind))
    assert not decision.placement.assignments
    assert "n1: could not tell its units" in "\n".join(plan_lines(decision.plan))


def test_a_node_where_llmgw_was_before_may_hide_replicas_when_it_cannot_tell_its_units() -> None:
    blind = node("n1", units=None, generation=7)
    decision = decide(catalog(service(replicas=1)), fleet(blind, node("n2")))
    assert decision.placement.unplaced[0].held is not None
    fresh = decide(catalog(service(replicas=1)), fleet(node("n1", units=None), node("n2")))
    assert fresh.placement.assignments[0].leader.node == "n2"


def test_a_node_that_cannot_tell_its_engines_gets_nothing_new() -> None:
    decision = decide(catalog(service(replicas=1)), fleet(node("n1", engines=None)))
    assert not decision.placement.assignments


def test_memory_that_a_stranger_holds_keeps_new_replicas_away_and_moves_nothing() -> None:
    world = World(fleet(node("n1", gpus=2)))
    wanted = catalog(service(replicas=1, profiles=(profile("g", classes=("h200-141g",), gpus=1),)))
    world.apply(wanted)
    held = tuple(
        contract.Finding("foreign-memory", "block", "train.py (pid 7) holds 900 MiB", subject=f"GPU-n1-{number}")
        for number in range(2)
    )
    one = world.fleet.nodes[0]
    assert one.facts is not None
    world.fleet = replace(world.fleet, nodes=(with_facts(one, replace(one.facts, findings=held)),))
    assert not decide(wanted, world.fleet).plan.changes
    more = decide(catalog(service(replicas=2, profiles=(profile("g", classes=("h200-141g",), gpus=1),))), world.fleet)
    assert len(more.placement.unplaced) == 1
    assert "train.py (pid 7) holds 900 MiB" in "\n".join(plan_lines(more.plan))


def test_a_profile_that_its_engine_cannot_serve_any_more_leaves_what_runs_running_and_says_so() -> None:
    world = World(fleet(node("n1")))
    world.apply(catalog(service(replicas=1)))
    decision = decide(catalog(service(replicas=1, profiles=(profile(quantization="fp8"),))), world.fleet)
    assert not decision.plan.changes
    assert "sim has no use for quantization" in "\n".join(plan_lines(decision.plan))
