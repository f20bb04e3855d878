# SPDX-License-Identifier: Apache-2.0
"""What the action plugins ask of llmgw: facts kept, a plan made, a step judged, routes settled."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from llmgw.apply import actions
from llmgw.errors import LlmgwError
from llmgw.fleet import store
from llmgw.fleet.hosts import Host
from llmgw.model.node import NodeState
from llmgw.nodekit import contract, version
from llmgw.routes.codec import load_bundle
from tests.support.fleets import catalog, facts, fleet, node, service
from tests.support.world import World

NOW = 2000.0
CATALOG = """\
version: 1
models: {smol: {path: /srv/models/smol.gguf}}
profiles: {cpu: {engine: sim, model: smol, devices: cpu}}
services: {chat: {profiles: cpu, replicas: %d}}
"""
HOSTS = (
    Host("gw", node=False, gateway=True),
    Host("n1", node=True, gateway=False, variables={"llmgw_address": "10.0.0.1"}),
    Host("n2", node=True, gateway=False, variables={"llmgw_address": "10.0.0.2"}),
)


def discovered(known: contract.NodeFacts) -> dict[str, Any]:
    """What a host's discovery answers, as Ansible hands it on."""
    answer: dict[str, Any] = json.loads(json.dumps({"ansible_facts": {"llmgw": asdict(known)}, "changed": False}))
    return answer


def test_facts_are_kept_of_every_host_that_told_them(tmp_path: Path) -> None:
    known = facts("n1", gpus=1, collected_at=NOW - 1)
    answers = {"n2": discovered(facts("n2")), "n1": discovered(known)}
    assert actions.keep_facts(tmp_path, answers, NOW) == {"stored": ["n1", "n2"], "missing": {}}
    assert store.load(tmp_path, "n1").facts == replace(known, module_version=version())


def test_a_refresh_in_part_is_joined_with_what_is_stored_and_says_of_whom_the_hardware_is_known(
    tmp_path: Path,
) -> None:
    whole = facts("n1", gpus=1, collected_at=NOW - 60, hardware_key="boot 580", cpu=contract.Cpu())
    actions.keep_facts(tmp_path, {"n1": discovered(whole), "n2": discovered(facts("n2"))}, NOW - 60)
    assert actions.known_hardware(tmp_path, ["n1", "n2", "n3"]) == {"n1": "boot 580"}
    partly = contract.NodeFacts(collected_at=NOW, hardware_key="boot 580", gathered=("memory",))
    actions.keep_facts(tmp_path, {"n1": discovered(partly)}, NOW)
    stored = store.load(tmp_path, "n1").facts
    assert stored is not None
    assert (stored.collected_at, stored.gpus, stored.memory) == (NOW, whole.gpus, None)


@pytest.mark.parametrize(
    "lacking",
    [
        {"probes": (contract.Probe("topology", 20.0, ok=False, detail="no answer"),)},
        {"engines": None},
        {"cpu": None},
        {"gathered": ("memory",)},
        {"hardware_key": None},
    ],
)
def test_hardware_that_could_not_be_read_is_read_again_by_the_next_refresh(
    tmp_path: Path, lacking: dict[str, Any]
) -> None:
    whole = facts("n1", gpus=1, collected_at=NOW, hardware_key="boot 580", cpu=contract.Cpu())
    actions.keep_facts(tmp_path, {"n1": discovered(replace(whole, **lacking))}, NOW)
    assert actions.known_hardware(tmp_path, ["n1"]) == {}


def test_a_discovery_that_died_after_a_reboot_leaves_no_hardware_to_be_taken_for_known(tmp_path: Path) -> None:
    whole = facts("n1", gpus=1, collected_at=NOW - 60, hardware_key="boot-1 580", cpu=contract.Cpu())
    died = contract.NodeFacts(collected_at=NOW, hardware_key="boot-2 580", gathered=())
    for known, now in ((whole, NOW - 60), (died, NOW)):
        actions.keep_facts(tmp_path, {"n1": discovered(known)}, now)
    stored = store.load(tmp_path, "n1").facts
    assert stored is not None
    assert (stored.memory, stored.cpu) == (whole.memory, None)
    assert actions.known_hardware(tmp_path, ["n1"]) == {}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"unreachable": True, "msg": "no route"}, "no route"),
        ({"failed": True, "msg": "no python"}, "no python"),
        ({"failed": True}, "without a message"),
        ({}, "without a message"),
        ({"skipped": True}, "without a message"),
        ({"ansible_facts": {"llmgw": {"contract_version": 1, "gpus": "many"}}}, "wrong at gpus"),
        ({"ansible_facts": {"llmgw": {"hello": 1}}}, "no facts of a node"),
        ({"ansible_facts": None}, "without a message"),
    ],
)
def test_a_host_that_told_none_costs_only_itself_and_keeps_its_earlier_facts(
    tmp_path: Path, answer: dict[str, Any], says: str
) -> None:
    store.save(tmp_path, "n1", facts("n1"))
    kept = actions.keep_facts(tmp_path, {"n1": answer, "n2": discovered(facts("n2"))}, NOW)
    assert kept["stored"] == ["n2"]
    assert says in kept["missing"]["n1"]
    stored = store.load(tmp_path, "n1")
    assert stored.facts == facts("n1")
    assert stored.unreachable_since == (NOW if answer.get("unreachable") else None)


def test_hosts_are_those_of_two_groups_with_the_variables_that_llmgw_reads() -> None:
    groups = {"fleet": ["n2", "n1"], "gateway": ["n1"], "other": ["x"]}
    variables = {
        "n1": {"llmgw_cordoned": True, "ansible_password": "secret", "ansible_host": "10.0.0.1"},
        "n2": {},
        "x": {},
    }
    assert actions.hosts_of(groups, variables) == (
        Host("n1", node=True, gateway=True, variables={"llmgw_cordoned": True, "ansible_host": "10.0.0.1"}),
        Host("n2", node=True, gateway=False),
    )
    assert actions.hosts_of({}, {}) == ()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "catalog.yaml").write_text(CATALOG % 2, encoding="utf-8")
    for name in ("n1", "n2"):
        store.save(tmp_path / "facts", name, facts(name))
    return tmp_path


def request(folder: Path, **values: Any) -> actions.Request:
    whole: dict[str, Any] = {
        "catalog": folder / "catalog.yaml",
        "facts": folder / "facts",
        "hosts": HOSTS,
        "now": NOW,
        "in_play": frozenset({"gw", "n1", "n2"}),
    }
    return actions.Request(**whole | values)


def test_a_plan_is_steps_and_text_as_plain_json(folder: Path) -> None:
    made = actions.make_plan(request(folder))
    assert json.loads(json.dumps(made)) == made
    assert made["changes"]
    assert made["summary"] == "Plan: 2 to create."
    assert [step["kind"] for step in made["steps"]] == ["units", "publish"]
    assert sorted(made["steps"][0]["hosts"]) == ["n1", "n2"]
    assert (made["unplaced"], made["problems"]) == ([], [])


def test_hosts_outside_the_limit_are_left_alone_and_named(folder: Path) -> None:
    made = actions.make_plan(request(folder, in_play=frozenset({"gw", "n1"})))
    assert sorted(made["steps"][0]["hosts"]) == ["n1"]
    assert "! n2 is left alone in this run" in made["text"]


def test_broken_facts_are_a_problem_of_their_host_and_the_plan_goes_on(folder: Path) -> None:
    (folder / "facts" / "n2.json").write_bytes(b"{")
    made = actions.make_plan(request(folder))
    assert len(made["problems"]) == 1
    assert "n2.json" in made["problems"][0]


def test_a_node_that_nobody_has_is_an_error(folder: Path) -> None:
    with pytest.raises(LlmgwError, match="the inventory has no host n9"):
        actions.make_plan(request(folder, lost=("n1", "n9")))


def test_a_declared_loss_moves_its_replicas_and_mass_loss_needs_to_be_allowed(folder: Path) -> None:
    world = World(fleet(*(replace(node(name), address=f"10.0.0.{name[1]}") for name in ("n1", "n2"))))
    world.apply(catalog(service(replicas=2)))
    for one in world.fleet.nodes:
        assert one.facts is not None
        store.save(folder / "facts", one.name, one.facts)
    moved = actions.make_plan(request(folder, lost=("n1",)))
    assert "1 to move" in moved["summary"]
    frozen = actions.make_plan(request(folder, lost=("n1", "n2")))
    assert frozen["text"][0].startswith("! frozen: 2 of 2 nodes are lost at once")
    assert frozen["unplaced"] == []
    allowed = actions.make_plan(request(folder, lost=("n1", "n2"), allow_mass_loss=True))
    assert allowed["unplaced"] == ["chat/0", "chat/1"]


def test_settled_routes_name_what_serves_now_and_outrank_all_before(folder: Path) -> None:
    world = World(fleet(*(replace(node(name), address=f"10.0.0.{name[1]}") for name in ("n1", "n2"))))
    world.apply(catalog(service(replicas=1)))
    (known,) = [one.facts for one in world.fleet.nodes if one.name == "n1"]
    assert known is not None
    store.save(folder / "facts", "n1", replace(known, generation=41))
    (step,) = actions.settle(request(folder))["steps"]
    bundle = load_bundle(step["bundle"].encode())
    assert [endpoint.id for route in bundle.routes.routes for endpoint in route.endpoints] == ["chat/0@n1"]
    assert step["generation"] == bundle.generation
    assert bundle.generation > 42, "an interrupted apply may have published 42"
    assert (step["kind"], step["hosts"], step["drain"]) == ("publish", ["gw"], [])


def test_a_node_out_of_reach_is_named_and_the_others_are_planned(folder: Path) -> None:
    actions.keep_facts(folder / "facts", {"n2": {"unreachable": True, "msg": "no route"}}, NOW)
    made = actions.make_plan(request(folder))
    assert sorted(made["steps"][0]["hosts"]) == ["n1"]
    assert any(line.startswith("! n2 does not answer") for line in made["text"])
    assert NodeState.UNREACHABLE.value in made["steps"][-1]["bundle"]


def test_a_host_that_answers_nonsense_costs_only_itself(tmp_path: Path) -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    answers: dict[str, dict[str, object]] = {
        "n1": {"ansible_facts": "text"},
        "n2": {"ansible_facts": {"llmgw": {"contract_version": 1, "x": deep}}},
        "n3": discovered(facts("n3")),
    }
    kept = actions.keep_facts(tmp_path, answers, NOW)
    assert (kept["stored"], sorted(kept["missing"])) == (["n3"], ["n1", "n2"])
