# SPDX-License-Identifier: Apache-2.0
"""What facts say becomes no line of a unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from llmgw.nodekit import unitfile
from tests.support import systemd_syntax as systemd
from tests.support.fleets import profile, with_facts
from tests.unit.units.unit_cases import Case, alone, gpus, machine

EVIL = "\n[Service]\rExecStartPre=/bin/evil\n"


def of_version(version: str) -> Case:
    on = machine()
    assert on.facts is not None
    engines = tuple(replace(one, version=version) for one in on.facts.engines or ())
    return alone(profile(), with_facts(on, replace(on.facts, engines=engines)))


CASES: dict[str, Callable[[str], Case]] = {
    "the version of an engine": of_version,
    "a device": lambda text: alone(gpus("vllm", 1), devices=(f"GPU-a{text}",)),
    "an address": lambda text: alone(profile(), replace(machine(), address=f"10.0.0.1{text}")),
    "a secret": lambda text: alone(profile(secrets={"A": f"b{text}"})),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_has_line_ends_in_it_adds_no_line(case: Callable[[str], Case]) -> None:
    evil, plain = case(EVIL).unit.text, case("").unit.text
    assert "\r" not in evil
    assert [setting[:2] for setting in systemd.settings(evil)] == [setting[:2] for setting in systemd.settings(plain)]
    assert len(evil.split("\n")) == len(plain.split("\n"))


def test_a_header_is_read_back_without_its_control_characters() -> None:
    written = unitfile.section(unitfile.Header(engine_version="1\n2\x00\r\x1b3 é", devices=("a\n", "b"), port=1))
    assert written.count("\n") == 4
    assert unitfile.parse(written) == unitfile.Header(engine_version="123 é", devices=("a", "b"), port=1)


def test_a_header_that_somebody_else_wrote_is_read_as_far_as_it_makes_sense() -> None:
    found = unitfile.parse("[X-Llmgw]\nPort=x\nRank=1\nnonsense\n[Service]\nModel=a\n[X-Llmgw]\nModel=b\r\n")
    assert found == unitfile.Header(rank=1, model="b")
