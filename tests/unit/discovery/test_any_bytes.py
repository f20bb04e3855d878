# SPDX-License-Identifier: Apache-2.0
"""Whatever a tool or the kernel prints, discovery gives facts, and only the part that it is about suffers.

Readers of single texts are tried in tests/properties/test_readings.py.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils import systemd, unitfile
from ansible_collections.llmgw.fleet.plugins.module_utils.capture import taking
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.recording import Answer, Call, Recording
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import (
    bound_cards,
    engines,
    gateway_facts,
    gpu_build,
    nvidia_smi,
    nvml,
    smi_failure,
    storage_mounts,
    system_facts,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Response, Result
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import (
    gguf,
    hub_files,
    ib_tools,
    imex_addresses,
    imex_config,
    kernel_log,
    safetensors,
    sysfs_ib_vpd,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from tests.support.captured_machine import machine, options

OWN_ERRORS = (Unreadable, gateway_facts.GatewayError)
OF_TEXT: list[Callable[[str], Any]] = [
    storage_mounts.mounts,
    system_facts.memory,
    lambda text: system_facts.cpu(text, (), None),
    system_facts.os_release,
    system_facts.boot_time,
    system_facts.systemd_version,
    system_facts.port_range,
    system_facts.count_listed,
    engines.version_in,
    lambda text: bound_cards.described("0000:10:00.0", text),
    nvidia_smi.capabilities,
    nvml.read,
    lambda text: smi_failure.evidence(Result(1, text, text)),
    lambda text: smi_failure.remark(Result(0, text, text)),
    lambda text: smi_failure.condition(Result(1, text, text)),
    imex_addresses.own_ipv4,
    imex_addresses.own_ipv6,
    imex_addresses.plain,
    imex_config.node_list_path,
    imex_config.listed_nodes,
    kernel_log.read,
    ib_tools.subnet_manager,
    ib_tools.neighbour_switch,
    ib_tools.adapter_ports,
    unitfile.parse,
    systemd.parse_show,
]
OF_BYTES: list[Callable[[bytes], Any]] = [
    lambda content: system_facts.listening_ports([content]),
    gpu_build.owning_unit,
    lambda content: gateway_facts.bundle("/b", content),
    lambda content: gateway_facts.endpoints(Response(200, content)),
    hub_files.read_tree,
    hub_files.read_index,
    sysfs_ib_vpd.read,
    lambda content: gguf.read_header(io.BytesIO(b"GGUF\x03\x00\x00\x00" + content)),
    lambda content: safetensors.read_header(io.BytesIO(content)),
    unitfile.environment_digest,
]


@pytest.mark.parametrize("parser", OF_TEXT)
@given(st.text() | st.binary().map(lambda content: content.decode("utf-8", "replace")))
def test_no_text_breaks_a_parser(parser: Callable[[str], Any], text: str) -> None:
    with contextlib.suppress(*OWN_ERRORS):
        parser(text)


@pytest.mark.parametrize("parser", OF_BYTES)
@given(st.binary())
def test_no_bytes_break_a_parser(parser: Callable[[bytes], Any], content: bytes) -> None:
    with contextlib.suppress(*OWN_ERRORS):
        parser(content)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_json_breaks_the_reading_of_endpoints(value: object) -> None:
    documents = (
        {"endpoints": value, "generation": value},
        {"endpoints": [{"id": "a", "state": value, "in_flight": value, "since": value}]},
    )
    for document in documents:
        with contextlib.suppress(gateway_facts.GatewayError):
            gateway_facts.endpoints(Response(200, json.dumps(document).encode()))
    gateway_facts.bundle("/b", json.dumps(dict.fromkeys(("generation", "routes_digest", "written_at"), value)).encode())


WHOLE, _FACTS = taking.take(machine(), options())
CONTENTS = [
    (call, place, name)
    for call, answers in WHOLE.calls.items()
    for place, answer in enumerate(answers)
    for name in sorted(answer.contents)
]
ODD = [
    b"-1",
    b"0",
    b"9" * 30,
    b"9" * 5000,
    b"N/A",
    b"\x00",
    b"\xff\xfe",
    b"\n",
    b"\t",
    b"GPU0",
    b"<gpu>",
    b"{",
    b'"',
    b": ",
]
EDITS = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 60), st.sampled_from(ODD) | st.binary(max_size=20)),
    min_size=1,
    max_size=4,
)


def with_answer(call: Call, place: int, answer: Answer) -> Recording:
    answers = list(WHOLE.calls[call])
    answers[place] = answer
    return replace(WHOLE, calls={**WHOLE.calls, call: tuple(answers)})


def checked(recording: Recording) -> None:
    """The facts of a recording are JSON, and no part of them is missing because discovery itself failed."""
    facts = taking.facts_in(recording)
    json.dumps(asdict(facts), allow_nan=False)
    failed = [probe for probe in facts.probes if not probe.ok and not (probe.detail or "").startswith("SystemdError")]
    assert failed == []


def test_the_machine_as_it_is_has_no_failed_part() -> None:
    checked(WHOLE)


@given(st.sampled_from(CONTENTS), EDITS)
def test_no_damage_to_what_one_tool_or_file_says_makes_a_part_fail(
    which: tuple[Call, int, str], edits: list[tuple[float, int, bytes]]
) -> None:
    call, place, name = which
    answer = WHOLE.calls[call][place]
    content = answer.contents[name]
    for where, length, payload in edits:
        begin = int(where * len(content))
        content = content[:begin] + payload + content[begin + length :]
    checked(with_answer(call, place, replace(answer, contents={**answer.contents, name: content})))


@given(st.sampled_from(CONTENTS), st.floats(0, 1, exclude_max=True))
def test_no_end_of_what_one_tool_or_file_says_makes_a_part_fail(which: tuple[Call, int, str], where: float) -> None:
    call, place, name = which
    answer = WHOLE.calls[call][place]
    cut = answer.contents[name][: int(where * len(answer.contents[name]))]
    checked(with_answer(call, place, replace(answer, contents={**answer.contents, name: cut})))


@given(
    call=st.sampled_from([call for call in WHOLE.calls if call.method == "run"]),
    rc=st.integers(-15, 255),
    timed_out=st.booleans(),
)
def test_no_exit_status_makes_a_part_fail(call: Call, rc: int, *, timed_out: bool) -> None:
    answer = WHOLE.calls[call][0]
    checked(with_answer(call, 0, replace(answer, fields={"rc": rc, "timed_out": timed_out})))


@given(st.sampled_from([call for call in WHOLE.calls if call.method == "read"]))
def test_no_file_that_cannot_be_read_makes_a_part_fail(call: Call) -> None:
    checked(with_answer(call, 0, Answer({"value": None})))
