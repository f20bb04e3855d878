# SPDX-License-Identifier: Apache-2.0
"""NVML and nvidia-smi give equal facts of equal hardware (D1), whatever the hardware."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding, Gpu
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import (
    cards,
    nvml,
    nvml_dump,
    nvml_processes,
    nvml_words,
)
from tests.support import fake_pynvml_machine as made
from tests.support.fake_host import FakeHost
from tests.support.fake_pynvml import LOST, FakePynvml

MISSING = json.dumps(
    {"python": "/usr/bin/python3", "failure": {"stage": "missing", "error": None, "text": "No module named 'pynvml'"}}
)
# nvidia-smi's long form has nothing of these; on that path they come from the topology, as do those of NVML after it.
FROM_TOPOLOGY: dict[str, Any] = {
    "numa_node": None,
    "cpu_affinity": None,
    "memory_numa_node": None,
    "nvlink_links": None,
    "nvlink_links_active": None,
    "nvlink_gbps": None,
    "nvlink_peers": None,
}
NAMES = {
    "NVIDIA H100 80GB HBM3": (81559, (9, 0)),
    "NVIDIA A100-SXM4-80GB": (81920, (8, 0)),
    "NVIDIA L40S": (46068, (8, 9)),
    "Tesla T4": (15360, (7, 5)),
    "NVIDIA GB10": (None, (12, 1)),
    "NVIDIA Graphics Device": (183359, (10, 0)),
}


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


@st.composite
def fabrics(draw: st.DrawFn) -> made.Fabric:
    fields = [draw(st.integers(0, 2)) for _field in range(4)]
    mask = sum(field << shift for field, shift in zip(fields, (0, 2, 4, 6), strict=True))
    return made.Fabric(
        state=draw(st.integers(0, 3)),
        status=draw(st.sampled_from([0, 23])),
        cluster=draw(st.sampled_from([made.ZERO, "0a0b0c0d-0102-0304-0506-0708090a0b0c"])),
        clique=draw(st.sampled_from([0, 7, 32766])),
        mask=mask | draw(st.integers(0, 8)) << 8,
        summary=draw(maybe(st.integers(0, 3))),
    )


@st.composite
def instances(draw: st.DrawFn) -> tuple[made.Instance, ...]:
    indexes = sorted(draw(st.sets(st.integers(0, 6), max_size=4)))
    return tuple(
        made.Instance(
            index,
            (at + 1, draw(st.integers(0, 1))),
            profile=draw(st.sampled_from(["1g.10gb", "1g.10gb+me", "3g.40gb", "1c.3g.40gb"])),
            total_mib=draw(st.sampled_from([9984, 40192, None])),
            errors=draw(st.sampled_from([0, 0, 3, None])),
        )
        for at, index in enumerate(indexes)
    )


@st.composite
def processes(draw: st.DrawFn, places: tuple[tuple[int, int] | None, ...]) -> tuple[made.Process, ...]:
    pids = draw(st.lists(st.integers(1, 99), unique=True, max_size=4))
    return tuple(
        made.Process(
            pid,
            draw(st.sampled_from(["C", "G", "CG", "MC"])),
            draw(st.sampled_from([0, 100, 700, None])),
            ("python", "VLLM::EngineCore", None)[pid % 3],
            draw(st.sampled_from(places)),
        )
        for pid in pids
    )


@st.composite
def card(draw: st.DrawFn, number: int) -> made.Card:
    name = draw(st.sampled_from(sorted(NAMES)))
    total, capability = NAMES[name]
    mig = draw(maybe(st.tuples(st.booleans(), st.booleans())))
    carved = draw(instances()) if mig and mig[0] else ()
    counters = st.tuples(*[st.integers(0, 3)] * 5)
    draw_mw = st.tuples(maybe(st.integers(1000, 900000)), maybe(st.integers(1000, 900000)))
    return made.Card(
        number,
        name=name,
        serial=draw(maybe(st.just("1650000000007"))),
        capability=capability,
        total_mib=total,
        used_mib=draw(st.integers(0, 9000)),
        utilization=draw(maybe(st.integers(0, 100))),
        temperature=draw(maybe(st.integers(20, 95))),
        draw_mw=draw(draw_mw),
        limit_mw=draw(maybe(st.integers(70000, 1200000))),
        persistence=draw(st.booleans()),
        reasons=draw(maybe(st.integers(0, 0x1FF))),
        widths=draw(maybe(st.sampled_from([(16, 16), (8, 16)]))),
        ecc=draw(maybe(st.booleans())),
        volatile=draw(maybe(counters)),
        aggregate=draw(maybe(counters)),
        threshold=draw(maybe(st.booleans())),
        rows=draw(maybe(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans(), st.booleans()))),
        pages=draw(maybe(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()))),
        recovery=draw(maybe(st.integers(0, 5))),
        mig=mig,
        instances=carved,
        processes=draw(maybe(processes(tuple(one.place for one in carved) or (None,)))),
        fabric=draw(maybe(fabrics())),
        links=draw(maybe(st.just((made.Link(switch=True),) * 2))),
    )


@st.composite
def machines(draw: st.DrawFn) -> made.Machine:
    count = draw(st.integers(1, 3))
    found = [draw(card(number)) for number in range(count)]
    if count > 1 and draw(st.booleans()):
        found[draw(st.integers(0, count - 1))] = made.Card(draw(st.just(0)), lost=LOST)
    return made.Machine(tuple(replace(one, number=number) for number, one in enumerate(found)))


def by_nvml(machine: made.Machine) -> tuple[tuple[Gpu, ...], tuple[Finding, ...]]:
    document = json.dumps(nvml_dump.dump(FakePynvml(machine)))
    found = cards.read_cards(FakeHost(made.bound(machine), programs={"nvml": document}), 30)
    assert found.driver is not None
    assert (found.driver.source, found.driver.fallback_reason) == ("nvml", None)
    assert (found.driver.driver_version, found.driver.cuda_version) == ("580.95.05", "13.1")
    assert found.gpus is not None
    return tuple(replace(gpu, **FROM_TOPOLOGY) for gpu in found.gpus), found.findings


def by_tool(machine: made.Machine) -> tuple[tuple[Gpu, ...], tuple[Finding, ...]]:
    host = FakeHost(made.bound(machine), commands=made.commands(machine), programs={"nvml": MISSING})
    found = cards.read_cards(host, 30)
    assert found.driver is not None
    assert found.driver.source == "nvidia-smi"
    assert (found.driver.driver_version, found.driver.cuda_version) == ("580.95.05", "13.1")
    assert found.gpus is not None
    return found.gpus, tuple(one for one in found.findings if one.code != "nvml-fallback")


def judged(findings: tuple[Finding, ...]) -> list[Finding]:
    """What a lost card said is in each path's own words."""
    plain = [replace(one, evidence=()) if one.code == "gpu-lost" else one for one in findings]
    return sorted(plain, key=repr)


def equal(machine: made.Machine) -> bool:
    (gpus, findings), (others, judgements) = by_nvml(machine), by_tool(machine)
    return gpus == others and judged(findings) == judged(judgements)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(machines())
def test_both_paths_give_equal_facts_and_findings(machine: made.Machine) -> None:
    (gpus, findings), (others, judgements) = by_nvml(machine), by_tool(machine)
    assert gpus == others
    assert judged(findings) == judged(judgements)


def truthy(mask: int, shift: int) -> bool | None:
    return bool(mask >> shift & 3) if mask >> shift & 3 else None


def without_holes(library: Any, ask: Any) -> list[Any]:
    found = []
    for index in range(7):
        handle = ask("nvmlDeviceGetMigDeviceHandleByIndex", index)
        if handle is None:
            break
        found.append(nvml_dump._mig_device(library, nvml_dump._Asked(library, handle), index))
    return found


@pytest.mark.parametrize(
    ("module", "name", "defect"),
    [
        (nvml_words, "_flag", truthy),
        (nvml_words, "_REASONS", {0x1: "gpu_idle"}),
        (nvml_words, "_SUMMARIES", {1: "Healthy", 2: "Limited Capacity", 3: "Unhealthy"}),
        (nvml, "_draw", lambda card: card["power_usage"]),
        (nvml_processes, "_KINDS", ("M", "C")),
        (nvml, "_remap", lambda _card: None),
        (nvml_dump, "_mig_devices", without_holes),
        (nvml_dump, "_PROCESSES", {**nvml_dump._PROCESSES, "G": "nvmlDeviceGetNothing"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_defect_in_one_path_is_seen(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, defect: Callable[..., Any] | dict[Any, Any]
) -> None:
    monkeypatch.setattr(module, name, defect)
    quick = settings(
        max_examples=500,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    found = find(machines(), lambda machine: not equal(machine), settings=quick)
    assert found.cards
