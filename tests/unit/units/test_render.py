# SPDX-License-Identifier: Apache-2.0
"""Rendered units: as golden files in golden/, and what changes which digest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from llmgw.engines import llamacpp, sim
from llmgw.errors import LlmgwError
from llmgw.model.ids import DeviceId, ReplicaId
from llmgw.model.node import Node, NodeSettings
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ProfileSpec
from llmgw.model.unit import UnitFile
from llmgw.nodekit import contract, unitfile
from llmgw.units.render import render
from tests.support import golden
from tests.support import systemd_syntax as systemd
from tests.support.fleets import facts, model, node, profile, service, with_facts

USER = NodeSettings(scope="user", state_dir="/home/op/.local/state/llmgw", engine_user=None)
NASTY = ("--chat-template", '{{ 50% of $HOME }}\n\t"it\'s" \\n', ";", "", "-")
HERE = Path(__file__).parent


def rendered(
    wanted: ProfileSpec, on: Node, devices: tuple[str, ...] = (), number: int = 0, port: int = 18000
) -> UnitFile:
    placed = Assignment(
        ReplicaId(f"chat/{number}"),
        service("chat", served_name="org/Chat-7B", profiles=(wanted,)),
        wanted,
        (Member(0, on.name, tuple(map(DeviceId, devices)), port),),
    )
    return render(placed, placed.leader, {on.name: on})


def without_journal(one: Node) -> Node:
    known = facts(one.name)
    return with_facts(one, replace(known, system=contract.System(journal=False)))


N1 = replace(node("n1"), address="10.0.0.1")
ON_USER = replace(without_journal(N1), settings=USER)
CASES: dict[str, tuple[ProfileSpec, Node, tuple[str, ...]]] = {
    "sim-system": (profile(parallel_requests=8, min_memory_bytes=2 * 10**9), N1, ()),
    "sim-user-without-journal": (profile(), ON_USER, ()),
    "sim-on-a-mig-instance": (profile("mig", gpus=1, classes=("a100-80g-mig-3g.40gb",)), N1, ("MIG-dead-beef",)),
    "llama-cpu": (
        profile("small", "llama.cpp", max_model_len=4096, parallel_requests=2, threads=4, env={"LLAMA_LOG": "1"}),
        N1,
        (),
    ),
    "llama-two-gpus": (profile("big", "llama.cpp", gpus=2, classes=("h200-141g",)), N1, ("GPU-b", "GPU-a")),
    "texts-that-need-care": (profile(args=NASTY, env={"GREETING": 'say "hi" for 100% $x\\', "EMPTY": ""}), N1, ()),
}


@pytest.fixture(scope="module")
def units() -> dict[str, UnitFile]:
    return {name: rendered(*case) for name, case in CASES.items()}


def test_units_are_as_the_golden_files(units: dict[str, UnitFile], *, update_golden: bool) -> None:
    golden.compare(
        HERE / "golden", {f"{name}.service": unit.text for name, unit in units.items()}, update=update_golden
    )


def test_systemd_reads_the_arguments_and_variables_that_were_meant(units: dict[str, UnitFile]) -> None:
    found = list(systemd.settings(units["texts-that-need-care"].text))
    (line,) = [value for _section, key, value in found if key == "ExecStart"]
    assert systemd.command(line)[-len(NASTY) :] == list(NASTY)
    variables = dict(systemd.assignment(value) for _section, key, value in found if key == "Environment")
    assert variables["GREETING"] == 'say "hi" for 100% $x\\'
    assert variables["EMPTY"] == ""


def test_the_unit_says_whose_it_is_and_its_digests_hold(units: dict[str, UnitFile]) -> None:
    for unit in units.values():
        header = unitfile.parse(unit.text)
        assert (header.replica, header.rank, header.members) == ("chat/0", 0, 1)
        assert (header.served_name, header.address, header.port) == ("org/Chat-7B", "10.0.0.1", 18000)
        assert header.process_digest == unit.process_digest
        assert header.text_digest == unit.text_digest == unitfile.text_digest(unit.text)
        assert f"{unitfile.DIGEST_VARIABLE}={unit.process_digest}" in unit.text
        assert unit.name == "llmgw-chat.0.0.service"
    assert unitfile.parse(units["llama-two-gpus"].text).devices == ("GPU-b", "GPU-a")
    assert unitfile.parse(units["sim-system"].text).memory_min_bytes == 2 * 10**9


def test_every_engine_has_longer_to_stop_than_it_takes_to_drain(units: dict[str, UnitFile]) -> None:
    assert units["sim-system"].stop_timeout_s > sim.SHUTDOWN_TIMEOUT_S
    assert units["llama-cpu"].stop_timeout_s > llamacpp.STOP_TIMEOUT_S
    for unit in units.values():
        assert f"TimeoutStopSec={unit.stop_timeout_s}\n" in unit.text


def edited(change: Callable[[contract.NodeFacts], contract.NodeFacts]) -> Node:
    assert N1.facts is not None
    return with_facts(N1, change(N1.facts))


SIM = "/opt/llmgw/engines/sim/bin/llmgw-sim"
NEWER = (contract.Engine("sim", (SIM,), "0.2.0", runnable=True),)
ELSEWHERE = (contract.Engine("sim", ("/usr/local/bin/sim",), "0.1.0", runnable=True),)
RESTARTING: list[tuple[str, ProfileSpec, Node, int]] = [
    ("an argument", profile(args=("--x",)), N1, 18000),
    ("a variable", profile(env={"A": "1"}), N1, 18000),
    ("the port", profile(), N1, 18001),
    ("the address", profile(), replace(N1, address="10.0.0.2"), 18000),
    ("the engine's version", profile(), edited(lambda known: replace(known, engines=NEWER)), 18000),
    ("the command", profile(), edited(lambda known: replace(known, engines=ELSEWHERE)), 18000),
    ("the user", profile(), replace(N1, settings=NodeSettings(engine_user="other")), 18000),
]


@pytest.mark.parametrize(("_what", "wanted", "on", "port"), RESTARTING, ids=[case[0] for case in RESTARTING])
def test_what_the_process_is_started_with_changes_the_process_digest(
    _what: str, wanted: ProfileSpec, on: Node, port: int
) -> None:
    assert rendered(wanted, on, port=port).process_digest != rendered(profile(), N1).process_digest


REWRITING: list[tuple[str, ProfileSpec, Node]] = [
    ("the memory it was promised", profile(min_memory_bytes=10**9), N1),
    ("the profile's name", profile("other"), N1),
    ("where it logs to", profile(), without_journal(N1)),
]


@pytest.mark.parametrize(("_what", "wanted", "on"), REWRITING, ids=[case[0] for case in REWRITING])
def test_everything_else_changes_the_text_alone(_what: str, wanted: ProfileSpec, on: Node) -> None:
    before, after = rendered(profile(), N1), rendered(wanted, on)
    assert after.text_digest != before.text_digest
    assert after.process_digest == before.process_digest


def test_what_only_waits_differently_changes_nothing() -> None:
    patient = rendered(profile(ready_timeout_s=1800, start_timeout_s=90), N1)
    assert patient.text == rendered(profile(), N1).text
    assert (patient.readiness.ready_timeout_s, patient.readiness.start_timeout_s) == (1800, 90)


def test_readiness_asks_the_leader_for_the_served_name() -> None:
    readiness = rendered(profile(), N1).readiness
    assert (readiness.kind, readiness.address, readiness.port) == ("http", "10.0.0.1", 18000)
    assert readiness.expect_model == "org/Chat-7B"


def test_two_replicas_of_a_node_have_units_of_their_own() -> None:
    first, second = rendered(profile(), N1), rendered(profile(), N1, number=11, port=18001)
    assert (first.name, second.name) == ("llmgw-chat.0.0.service", "llmgw-chat.11.0.service")


WEIGHTS = (contract.Weights("smol", "/mnt/nvme/models/smol.gguf"), contract.Weights("x", "/srv/xsmol.gguf"))


@pytest.mark.parametrize(
    ("path", "seen", "directories", "found"),
    [
        ("/abs/smol.gguf", WEIGHTS, ("/a",), "/abs/smol.gguf"),
        ("smol.gguf", WEIGHTS, ("/a",), "/mnt/nvme/models/smol.gguf"),
        ("smol.gguf", (), ("/a", "/b"), "/a/smol.gguf"),
        ("smol.gguf", None, (), "/srv/models/smol.gguf"),
        ("models/smol.gguf", WEIGHTS, (), "/mnt/nvme/models/smol.gguf"),
    ],
)
def test_weights_are_named_by_where_they_were_seen(
    path: str, seen: tuple[contract.Weights, ...] | None, directories: tuple[str, ...], found: str
) -> None:
    on = replace(edited(lambda known: replace(known, weights=seen)), settings=NodeSettings(model_dirs=directories))
    unit = rendered(profile("l", "llama.cpp", model=replace(model(), path=path)), on)
    assert f"--model {found} " in unit.text


def test_an_engine_is_started_as_it_was_found_else_as_the_inventory_or_the_role_has_it() -> None:
    own = NodeSettings(engine_commands={"sim": ("/usr/bin/python3", "/x/sim.py")})
    unseen = edited(lambda known: replace(known, engines=()))
    for on, command in (
        (replace(edited(lambda known: replace(known, engines=ELSEWHERE)), settings=own), "/usr/local/bin/sim"),
        (replace(unseen, settings=own), "/usr/bin/python3 /x/sim.py"),
        (unseen, SIM),
    ):
        assert f"ExecStart={command} --model " in rendered(profile(), on).text


def test_a_command_that_systemd_cannot_start_is_an_error_before_anything_is_written() -> None:
    found = (contract.Engine("sim", ("sim",), "0.1.0", runnable=True),)
    with pytest.raises(LlmgwError, match="systemd cannot start 'sim'"):
        rendered(profile(), edited(lambda known: replace(known, engines=found)))


def test_an_engine_of_the_future_is_an_error() -> None:
    with pytest.raises(LlmgwError, match="cannot be started by this version"):
        rendered(profile(engine="mystery"), N1)
