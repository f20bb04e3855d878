# SPDX-License-Identifier: Apache-2.0
"""Whatever a tool or the kernel prints, a parser gives facts or its own error, and nothing else is raised."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import (
    engines,
    gateway_facts,
    gpu_build,
    gpu_findings,
    storage,
    system_facts,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Response
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import smi_text, smi_xml
from tests.support import smi_texts
from tests.support.smi_texts import card, document

MIG = card(
    1,
    mig=("Enabled", "Enabled"),
    instances=[smi_texts.instance(0, 1)],
    processes=[smi_texts.process(5, "x", "3 MiB", place=("1", "0"))],
)
XML = document(card(0), MIG)
NUMBERS = st.sampled_from(["-1", "0", "9" * 30, "1e9", "N/A", "", "\u0664", "7.5", "None", "\x00"])


def as_text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def all_of_xml(text: str) -> None:
    """Reads, finishes and judges, as discovery does."""
    with contextlib.suppress(smi_xml.SmiError):
        cards = gpu_build.finish(smi_xml.read(text).gpus, (), {}, lambda _pid: None)
        gpu_findings.judge(cards)
        gpu_build.foreign_engines(cards)


def bundle(content: bytes) -> None:
    with contextlib.suppress(gateway_facts.GatewayError):
        gateway_facts.bundle("/b", content)


def endpoints(content: bytes) -> None:
    with contextlib.suppress(gateway_facts.GatewayError):
        gateway_facts.endpoints(Response(200, content))


PARSERS: list[Callable[[bytes], Any]] = [
    lambda content: all_of_xml(as_text(content)),
    lambda content: smi_text.listing(as_text(content)),
    lambda content: smi_text.failure(as_text(content)),
    lambda content: smi_text.unreachable_cards(as_text(content)),
    lambda content: smi_text.compute_capabilities(as_text(content)),
    lambda content: storage.mounts(as_text(content)),
    lambda content: system_facts.memory(as_text(content)),
    lambda content: system_facts.cpu(as_text(content), (), None),
    lambda content: system_facts.os_release(as_text(content)),
    lambda content: system_facts.boot_time(as_text(content)),
    lambda content: system_facts.systemd_version(as_text(content)),
    lambda content: system_facts.port_range(as_text(content)),
    lambda content: system_facts.count_listed(as_text(content)),
    lambda content: system_facts.listening_ports([content]),
    lambda content: engines.version_in(as_text(content)),
    gpu_build.owning_unit,
    bundle,
    endpoints,
]


@pytest.mark.parametrize("parser", PARSERS)
@given(content=st.binary())
def test_no_bytes_break_a_parser(parser: Callable[[bytes], Any], content: bytes) -> None:
    parser(content)


@given(st.integers(0, len(XML)), st.integers(0, 60), st.binary(max_size=20))
def test_no_damage_breaks_the_reading_of_cards(start: int, length: int, insert: bytes) -> None:
    all_of_xml(XML[:start] + as_text(insert) + XML[start + length :])


@given(st.sampled_from(sorted({word for word in XML.replace("<", ">").split(">") if word.strip()})), NUMBERS)
def test_no_value_breaks_the_reading_of_cards(word: str, value: str) -> None:
    all_of_xml(XML.replace(f">{word}<", f">{value}<"))


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_json_breaks_the_reading_of_endpoints(value: object) -> None:
    endpoints(json.dumps({"endpoints": value, "generation": value}).encode())
    endpoints(json.dumps({"endpoints": [{"id": "a", "state": value, "in_flight": value, "since": value}]}).encode())
    bundle(json.dumps({"generation": value, "routes_digest": value, "written_at": value}).encode())


def test_entities_are_not_expanded() -> None:
    entities = '<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">'
    bomb = f"<!DOCTYPE nvidia_smi_log [{entities}]><nvidia_smi_log>&b;</nvidia_smi_log>"
    with pytest.raises(smi_xml.SmiError):
        smi_xml.read(bomb)
