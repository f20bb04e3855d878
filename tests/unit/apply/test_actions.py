# SPDX-License-Identifier: Apache-2.0
"""What the action plugins ask of llmgw: facts kept, a plan made, a step judged, routes settled."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from llmgw.apply import actions
from llmgw.apply.inputs import inputs_of
from llmgw.apply.saved import SavedOptions, saved_text
from llmgw.catalog.load import load_catalog
from llmgw.decide import Options, decide
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
        ({"failed": True, "msg": "Timed out", "timedout": {"period": 120}}, "no answer within 120 s"),
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
    assert stored.unreachable_since == (NOW if answer.keys() & {"unreachable", "timedout"} else None)


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


def made_of(asked: actions.Request) -> dict[str, Any]:
    return actions.make_plan(asked, asked.catalog.parent / "bulk")


def bundle_of(step: dict[str, Any]) -> str:
    routes, rest = (Path(step[key]).read_text(encoding="utf-8") for key in ("path", "rest_path"))
    return f"{routes[:-1]},{rest[1:]}"


def test_a_plan_is_steps_and_text_as_plain_json(folder: Path) -> None:
    made = made_of(request(folder))
    assert json.loads(json.dumps(made)) == made
    assert made["changes"]
    assert made["summary"] == "Plan: 2 to create."
    assert [step["kind"] for step in made["steps"]] == ["units", "publish"]
    assert sorted(made["steps"][0]["hosts"]) == ["n1", "n2"]
    assert (made["unplaced"], made["problems"]) == ([], [])


def test_hosts_outside_the_limit_are_left_alone_and_named(folder: Path) -> None:
    made = made_of(request(folder, in_play=frozenset({"gw", "n1"})))
    assert sorted(made["steps"][0]["hosts"]) == ["n1"]
    assert "! n2 is left alone in this run" in made["text"]


def test_broken_facts_are_a_problem_of_their_host_and_the_plan_goes_on(folder: Path) -> None:
    (folder / "facts" / "n2.json").write_bytes(b"{")
    made = made_of(request(folder))
    assert len(made["problems"]) == 1
    assert "n2.json" in made["problems"][0]


def test_a_node_that_nobody_has_is_an_error(folder: Path) -> None:
    with pytest.raises(LlmgwError, match="the inventory has no host n9"):
        made_of(request(folder, lost=("n1", "n9")))


def test_a_declared_loss_moves_its_replicas_and_mass_loss_needs_to_be_allowed(folder: Path) -> None:
    world = World(fleet(*(replace(node(name), address=f"10.0.0.{name[1]}") for name in ("n1", "n2"))))
    world.apply(catalog(service(replicas=2)))
    for one in world.fleet.nodes:
        assert one.facts is not None
        store.save(folder / "facts", one.name, one.facts)
    moved = made_of(request(folder, lost=("n1",)))
    assert "1 to move" in moved["summary"]
    frozen = made_of(request(folder, lost=("n1", "n2")))
    assert frozen["text"][0].startswith("! frozen: 2 of 2 nodes are lost at once")
    assert frozen["unplaced"] == []
    allowed = made_of(request(folder, lost=("n1", "n2"), allow_mass_loss=True))
    assert allowed["unplaced"] == ["chat/0", "chat/1"]


def test_settled_routes_name_what_serves_now_and_outrank_all_before(folder: Path) -> None:
    world = World(fleet(*(replace(node(name), address=f"10.0.0.{name[1]}") for name in ("n1", "n2"))))
    world.apply(catalog(service(replicas=1)))
    (known,) = [one.facts for one in world.fleet.nodes if one.name == "n1"]
    assert known is not None
    store.save(folder / "facts", "n1", replace(known, generation=41))
    (step,) = actions.settle(request(folder), folder / "bulk")["steps"]
    bundle = load_bundle(bundle_of(step).encode())
    assert [endpoint.id for route in bundle.routes.routes for endpoint in route.endpoints] == ["chat/0@n1"]
    assert step["generation"] == bundle.generation
    assert bundle.generation > 42, "an interrupted apply may have published 42"
    assert (step["kind"], step["hosts"], step["drain"]) == ("publish", ["gw"], [])


def test_a_node_out_of_reach_is_named_and_the_others_are_planned(folder: Path) -> None:
    actions.keep_facts(folder / "facts", {"n2": {"unreachable": True, "msg": "no route"}}, NOW)
    made = made_of(request(folder))
    assert sorted(made["steps"][0]["hosts"]) == ["n1"]
    assert any(line.startswith("! n2 does not answer") for line in made["text"])
    assert NodeState.UNREACHABLE.value in bundle_of(made["steps"][-1])


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


def test_the_bulk_of_a_plan_lies_in_files_that_only_their_owner_can_read(folder: Path) -> None:
    made = made_of(request(folder))
    start, publish = made["steps"]
    told = start["hosts"]["n1"]
    assert told["units"] == ["llmgw-chat.0.0.service"]
    (unit,) = json.loads(Path(told["path"]).read_text(encoding="utf-8"))["present"]
    assert "ExecStart=" in unit["text"]
    assert not {"bundle", "bundle_rest"} & publish.keys()
    assert load_bundle(bundle_of(publish).encode()).generation == publish["generation"]
    assert "ExecStart" not in json.dumps(made)
    assert Path(publish["path"]).parent.stat().st_mode & 0o077 == 0


def test_a_run_knows_whom_it_concerns_who_began_it_and_what_tells_it_from_others(folder: Path) -> None:
    made, again = made_of(request(folder)), made_of(request(folder))
    assert made["touched"] == made["in_play"] == ["gw", "n1", "n2"]
    assert made["of_host"] == {"n1": [0], "n2": [0], "gw": [1]}
    assert made["plan_id"] != again["plan_id"]
    assert len(made["plan_id"]) == 16
    assert made["by"] == made["record"]["by"]
    assert made["record"]["generation"] == made["steps"][0]["generation"]
    assert made["at_once"] == 0


def test_gateways_are_in_every_run_that_changes_something_so_that_a_failure_leaves_them_true_routes(
    folder: Path,
) -> None:
    made = made_of(request(folder, in_play=frozenset({"gw", "n1"})))
    assert made["touched"] == ["gw", "n1"]


def test_a_run_without_anything_to_do_touches_nobody(folder: Path) -> None:
    (folder / "catalog.yaml").write_text(CATALOG % 0, encoding="utf-8")
    quiet = made_of(request(folder, hosts=HOSTS[1:], in_play=frozenset({"n1", "n2"})))
    assert (quiet["steps"], quiet["touched"], quiet["changes"]) == ([], [], False)
    assert not (folder / "bulk").exists()


def test_what_puts_a_wave_back_is_found_by_wave_and_service(folder: Path) -> None:
    world = World(fleet(*(replace(node(name), address=f"10.0.0.{name[1]}") for name in ("n1", "n2"))))
    world.apply(load_catalog(folder / "catalog.yaml"))
    for one in world.fleet.nodes:
        assert one.facts is not None
        store.save(folder / "facts", one.name, one.facts)
    text = CATALOG.replace("devices: cpu", "devices: cpu, args: [--x]") % 2
    (folder / "catalog.yaml").write_text(text, encoding="utf-8")
    made = made_of(request(folder))
    assert "2 to update" in made["summary"]
    numbers = [number for services in made["undo"].values() for found in services.values() for number in found]
    assert sorted(numbers) == list(range(len(made["undo_steps"])))
    assert made["undo_steps"], "a wave that replaces what runs can be put back"
    assert {name for services in made["undo"].values() for name in services} == {"chat"}
    for host, own in made["undo_of_host"].items():
        assert all(host in made["undo_steps"][number]["hosts"] for number in own)


def test_another_plan_than_the_saved_one_is_refused_and_says_what_changed(folder: Path) -> None:
    inputs = inputs_of(load_catalog(folder / "catalog.yaml"), HOSTS, folder / "facts", NOW)
    plan = decide(load_catalog(folder / "catalog.yaml"), inputs.fleet, Options(inputs=inputs.digests)).plan
    path = folder / "saved.json"
    path.write_text(saved_text(plan, SavedOptions(), "ops@ctl1", NOW), encoding="utf-8")
    assert made_of(request(folder, saved=path))["summary"] == "Plan: 2 to create."
    (folder / "catalog.yaml").write_text(CATALOG % 1, encoding="utf-8")
    with pytest.raises(LlmgwError, match="The catalog has changed"):
        made_of(request(folder, saved=path))
