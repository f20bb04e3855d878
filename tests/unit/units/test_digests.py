# SPDX-License-Identifier: Apache-2.0
"""What restarts a replica and what is only rewritten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from llmgw.model.node import Node, NodeSettings
from llmgw.nodekit import contract, unitfile
from tests.support.fleets import profile, with_facts
from tests.unit.units.unit_cases import HCAS, QWEN, Case, alone, cards, gpus, group, machine, wide

N1 = machine()
NEWER = (contract.Engine("sim", ("/opt/llmgw/engines/sim/bin/llmgw-sim",), "0.2.0", runnable=True),)
ELSEWHERE = (contract.Engine("sim", ("/usr/local/bin/sim",), "0.1.0", runnable=True),)
SECRET = {"HF_TOKEN": "hf-token"}


def edited(change: Callable[[contract.NodeFacts], contract.NodeFacts], one: Node = N1) -> Node:
    assert one.facts is not None
    return with_facts(one, change(one.facts))


RESTARTING: dict[str, Case] = {
    "an argument": alone(profile(args=("--x",))),
    "a variable": alone(profile(env={"A": "1"})),
    "the port": alone(profile(), port=18001),
    "the address": alone(profile(), replace(N1, address="10.0.0.2")),
    "the engine's version": alone(profile(), edited(lambda known: replace(known, engines=NEWER))),
    "the command": alone(profile(), edited(lambda known: replace(known, engines=ELSEWHERE))),
    "the user": alone(profile(), replace(N1, settings=NodeSettings(engine_user="other"))),
    "a secret": alone(profile(secrets=SECRET)),
}


@pytest.mark.parametrize("case", RESTARTING.values(), ids=RESTARTING)
def test_what_the_process_is_started_with_changes_the_process_digest(case: Case) -> None:
    assert case.unit.process_digest != alone(profile()).unit.process_digest


REWRITING: dict[str, Case] = {
    "the memory it was promised": alone(profile(min_memory_bytes=10**9)),
    "the memory it may take": alone(profile(max_memory_bytes=10**9)),
    "the profile's name": alone(profile("other")),
    "where it logs to": alone(profile(), machine(journal=False)),
    "the manager's version": alone(profile(), machine(systemd_version=256)),
    "how long it may load": alone(profile(ready_timeout_s=1800)),
    "how long it may start": alone(profile(start_timeout_s=90)),
    "who reaches it": alone(profile(), access=("10.9.0.1",)),
}


@pytest.mark.parametrize("case", REWRITING.values(), ids=REWRITING)
def test_everything_else_changes_the_text_alone(case: Case) -> None:
    before, after = alone(profile()).unit, case.unit
    assert after.text_digest != before.text_digest
    assert after.process_digest == before.process_digest


def test_where_it_is_bound_changes_the_text_alone() -> None:
    on, off = (alone(gpus("vllm", 4, bind_numa=bound), devices=cards(4), numa_node=1).unit for bound in (True, False))
    assert on.text_digest != off.text_digest
    assert on.process_digest == off.process_digest


def test_what_a_unit_was_started_with_before_there_were_groups_and_secrets_is_the_same_today() -> None:
    unit = alone(profile()).unit
    argv = ["/opt/llmgw/engines/sim/bin/llmgw-sim", "--model", "smol", "--served-model-name", "org/Chat-7B"]
    argv += ["--host", "10.0.0.1", "--port", "18000", "--shutdown-timeout", "20"]
    covered = {"argv": argv, "env": {}, "devices": [], "version": "0.1.0", "user": "llmgw"}
    assert unit.process_digest == unitfile.digest(covered)


def test_a_secret_is_known_by_its_name_and_the_variable_that_has_it() -> None:
    named = alone(profile(secrets=SECRET)).unit
    assert alone(profile(secrets={"HF_TOKEN": "other"})).unit.process_digest != named.process_digest
    assert alone(profile(secrets={"OTHER": "hf-token"})).unit.process_digest != named.process_digest


def both(**more: Any) -> list[tuple[str | None, str]]:
    """The group and process digests of the two members."""
    units = [group(wide("vllm", **more.get("profile", {})), rank, **more.get("group", {})).unit for rank in (0, 1)]
    return [(unitfile.parse(unit.text).group, unit.process_digest) for unit in units]


def test_members_of_a_replica_have_one_group_digest_and_each_its_own_process_digest() -> None:
    (first, leads), (second, follows) = both()
    assert first is not None
    assert first == second
    assert leads != follows


N2 = machine("n2", gpus=8)
VLLM = (contract.Engine("vllm", ("/opt/llmgw/engines/vllm/bin/vllm",), "0.33.0", runnable=True),)
OF_ONE: dict[str, dict[str, Any]] = {
    "an argument of both": {"profile": {"args": ("--x",)}},
    "the adapters": {"group": {"hcas": HCAS, "fabric": "ib-a"}},
    "a secret": {"profile": {"secrets": SECRET}},
    "the other's version": {
        "group": {"nodes": (machine(gpus=8), edited(lambda known: replace(known, engines=VLLM), N2))}
    },
    "the other's user": {
        "group": {"nodes": (machine(gpus=8), replace(N2, settings=NodeSettings(engine_user="other")))}
    },
    "the other's address": {"group": {"nodes": (machine(gpus=8), replace(N2, address="10.0.0.9"))}},
}


@pytest.mark.parametrize("changed", OF_ONE.values(), ids=OF_ONE)
def test_what_one_member_is_started_with_restarts_all_of_them(changed: dict[str, Any]) -> None:
    before, after = both(), both(**changed)
    assert after[0][0] == after[1][0] != before[0][0]
    assert all(now[1] != then[1] for now, then in zip(after, before, strict=True))


def test_a_guard_that_listens_elsewhere_restarts_all_members() -> None:
    case = group(wide("vllm"), 0)
    leader, follower = case.replica.members
    moved = replace(case, replica=replace(case.replica, members=(leader, replace(follower, port=18500))))
    assert moved.unit.process_digest != case.unit.process_digest


def test_a_limit_of_one_member_restarts_none() -> None:
    assert both(profile={"max_memory_bytes": 10**9}) == both()


def test_a_replica_on_one_node_is_in_no_group() -> None:
    assert unitfile.parse(alone(gpus("vllm", 2, model=QWEN), devices=cards(2)).unit.text).group is None
