# SPDX-License-Identifier: Apache-2.0
"""Facts are read from text in a quick way and in a thorough one, and both say the same of everything."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from llmgw.errors import LlmgwError
from llmgw.fleet import facts as facts_module
from llmgw.fleet.facts import parse_facts, read_facts
from llmgw.nodekit import contract
from tests.support.fleets import facts

RICH = replace(
    facts("n1", gpus=1),
    contract_version=2,
    generation=3,
    cordoned=False,
    units=(contract.ObservedUnit("llmgw-chat.0.0.service", "chat/0", text='A="b\\"\n', since=5.0, restarts=1),),
    probes=(contract.Probe("gpus", 0.5, ok=True, at=7.0),),
    rdma_ports=(contract.RdmaPort("mlx5_0", 1, rate_gbps=400.0, port_guid="0x0123456789012345"),),
)
DOCUMENT = json.dumps(asdict(RICH))
VALUES = [found.span() for found in re.finditer(r'(?<=: )(?:null|true|false|-?[0-9.]+|"(?:[^"\\]|\\.)*")', DOCUMENT)]
LONG = ["9" * 18, "9" * 19, "-" + "9" * 19, "9" * 30, "9" * 18 + ".5", "9" * 19 + ".5", "0." + "1" * 25]
POWERS = ["1e5", "1E5", "1e+300", "1e300", "-1E+18", "2e-7", "1e999"]
numbers = st.sampled_from(["0", "-0", "1", "1.0", "-3", "NaN", "-Infinity", "01", *POWERS, *LONG])
words = st.text(max_size=8).map(json.dumps) | st.sampled_from(
    [r'"\ud800"', r'"\\"', r'"\""', r'"\\\""', '"9999999999999999999"', '"1e300"', '": 1e300,"', r'"\": 1e300,"', '"5"']
)
others = st.sampled_from(
    ["null", "true", "false", "[]", "{}", '["a"]', "[1e300]", '{"total_bytes": 1e20}', "", "}", '"']
)
edits = st.lists(
    st.tuples(st.integers(0, len(VALUES) - 1), numbers | words | others), max_size=3, unique_by=lambda edit: edit[0]
)


def edited(changes: list[tuple[int, str]]) -> str:
    text = DOCUMENT
    for at, value in sorted(changes, reverse=True):
        begin, end = VALUES[at]
        text = text[:begin] + value + text[end:]
    return text


def thorough(data: bytes) -> contract.NodeFacts | str:
    try:
        document = json.loads(data)
    except ValueError:
        return "facts-broken"
    try:
        return parse_facts(document)
    except LlmgwError as error:
        return error.code


def quick(data: bytes) -> contract.NodeFacts | str:
    try:
        return read_facts(data)
    except LlmgwError as error:
        return error.code


def differs(text: str) -> bool:
    return repr(quick(text.encode())) != repr(thorough(text.encode()))


@settings(max_examples=400)
@given(edits, st.sampled_from([{}, {"indent": 1}, {"indent": "\t"}, {"ensure_ascii": False}]))
@example([], {})
@example([(2, "9" * 18 + ".5")], {})
def test_text_says_what_its_json_says(changes: list[tuple[int, str]], style: dict[str, Any]) -> None:
    text = edited(changes)
    assert not differs(text)
    try:
        again = json.dumps(json.loads(text), **style)
        again.encode()
    except ValueError:
        return
    assert not differs(again)


@pytest.mark.parametrize(
    "text", ["", "{}", "null", "[]", '{"contract_version": null}', '{"a": {"contract_version": 2}}']
)
def test_what_is_no_facts_is_none_in_both_ways(text: str) -> None:
    assert quick(text.encode()) == thorough(text.encode()) == "facts-broken"


def test_most_facts_need_the_quick_way_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_document: object) -> None:
        raise AssertionError

    monkeypatch.setattr(facts_module, "parse_facts", refuse)
    for indent in (None, 1):
        assert read_facts(json.dumps(asdict(RICH), indent=indent).encode()) == RICH


def test_the_property_sees_a_quick_way_that_overlooks_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts_module, "_may_have_odd_numbers", lambda _data: False)
    assert differs('{"contract_version": 2, "collected_at": 1e300}')
    assert differs('{"contract_version": 2, "generation": 9999999999999999999}')
