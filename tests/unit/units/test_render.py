# SPDX-License-Identifier: Apache-2.0
"""Rendered units: whose they are, what they start, when they are ready."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from llmgw.engines import llamacpp, sim
from llmgw.errors import LlmgwError
from llmgw.model.node import Node, NodeSettings
from llmgw.model.unit import UnitFile
from llmgw.nodekit import contract, unitfile
from tests.support import systemd_syntax as systemd
from tests.support.fleets import model, profile, with_facts
from tests.unit.units.unit_cases import NASTY, alone, cases, machine

N1 = machine()
ELSEWHERE = (contract.Engine("sim", ("/usr/local/bin/sim",), "0.1.0", runnable=True),)


@pytest.fixture(scope="module")
def units() -> dict[str, UnitFile]:
    return {name: case.unit for name, case in cases().items()}


def edited(change: Callable[[contract.NodeFacts], contract.NodeFacts]) -> Node:
    assert N1.facts is not None
    return with_facts(N1, change(N1.facts))


def test_systemd_reads_the_arguments_and_variables_that_were_meant(units: dict[str, UnitFile]) -> None:
    found = list(systemd.settings(units["texts-that-need-care"].text))
    (line,) = [value for _section, key, value in found if key == "ExecStart"]
    assert systemd.command(line)[-len(NASTY) :] == list(NASTY)
    variables = dict(systemd.assignment(value) for _section, key, value in found if key == "Environment")
    assert variables["GREETING"] == 'say "hi" for 100% $x\\'
    assert variables["EMPTY"] == ""


def test_the_unit_says_whose_it_is_and_its_digests_hold(units: dict[str, UnitFile]) -> None:
    for name, unit in units.items():
        header, case = unitfile.parse(unit.text), cases()[name]
        member = case.replica.members[case.rank]
        assert (header.replica, header.rank, header.members) == ("chat/0", case.rank, len(case.replica.members))
        assert (header.served_name, header.address) == ("org/Chat-7B", case.nodes[member.node].address)
        assert (header.port, header.devices) == (member.port, member.devices)
        assert header.process_digest == unit.process_digest
        assert header.text_digest == unit.text_digest == unitfile.text_digest(unit.text)
        assert f"{unitfile.DIGEST_VARIABLE}={unit.process_digest}" in unit.text
        assert unit.name == f"llmgw-chat.0.{case.rank}.service"
        assert header.start_timeout_s == unit.readiness.start_timeout_s
        assert header.ready_timeout_s == unit.readiness.ready_timeout_s
    assert unitfile.parse(units["llama-two-gpus"].text).devices == ("GPU-b", "GPU-a")
    assert unitfile.parse(units["sim-system"].text).memory_min_bytes == 2 * 10**9


def test_every_engine_has_longer_to_stop_than_it_takes_to_drain(units: dict[str, UnitFile]) -> None:
    assert units["sim-system"].stop_timeout_s > sim.SHUTDOWN_TIMEOUT_S
    assert units["llama-cpu"].stop_timeout_s > llamacpp.STOP_TIMEOUT_S
    for unit in units.values():
        assert f"TimeoutStopSec={unit.stop_timeout_s}\n" in unit.text


def test_readiness_asks_the_leader_for_the_served_name() -> None:
    readiness = alone(profile(), N1).unit.readiness
    assert (readiness.kind, readiness.address, readiness.port) == ("http", "10.0.0.1", 18000)
    assert readiness.expect_model == "org/Chat-7B"


def test_two_replicas_of_a_node_have_units_of_their_own() -> None:
    first, second = alone(profile()).unit, alone(profile(), number=11, port=18001).unit
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
    unit = alone(profile("l", "llama.cpp", model=replace(model(), path=path)), on).unit
    assert f"--model {found} " in unit.text


def test_an_engine_is_started_as_it_was_found_else_as_the_inventory_or_the_role_has_it() -> None:
    own = NodeSettings(engine_commands={"sim": ("/usr/bin/python3", "/x/sim.py")})
    unseen = edited(lambda known: replace(known, engines=()))
    for on, command in (
        (replace(edited(lambda known: replace(known, engines=ELSEWHERE)), settings=own), "/usr/local/bin/sim"),
        (replace(unseen, settings=own), "/usr/bin/python3 /x/sim.py"),
        (unseen, sim.Simulator.traits.default_command),
    ):
        assert f"ExecStart={command} --model " in alone(profile(), on).unit.text


def test_a_command_that_systemd_cannot_start_is_an_error_before_anything_is_written() -> None:
    found = (contract.Engine("sim", ("sim",), "0.1.0", runnable=True),)
    with pytest.raises(LlmgwError, match="systemd cannot start 'sim'"):
        _ = alone(profile(), edited(lambda known: replace(known, engines=found))).unit


def test_an_engine_of_the_future_is_an_error() -> None:
    with pytest.raises(LlmgwError, match="cannot be started by this version"):
        _ = alone(profile(engine="mystery"), N1).unit
