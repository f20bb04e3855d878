# SPDX-License-Identifier: Apache-2.0
"""Which path reads the cards, what is said when it is not the better one, and what a node without cards pays."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import GpuDriver
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import cards, gpu_build, nvml_dump
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Result
from tests.support import fake_pynvml_machine as made
from tests.support.fake_host import FakeHost
from tests.support.fake_pynvml import FakePynvml
from tests.support.fake_pynvml_machine import Card, Machine, Process

MACHINE = Machine((Card(0), Card(1)))
MISMATCH = Result(18, "Failed to initialize NVML: Driver/library version mismatch\n", "")


def printed(machine: Machine = MACHINE, **library: Any) -> str:
    return json.dumps(nvml_dump.dump(FakePynvml(machine, **library)))


def failed(stage: str, error: int | None = None, text: str = "why") -> str:
    failure = {"stage": stage, "error": error, "text": text}
    return json.dumps({"python": "/usr/bin/python3.9", "failure": failure})


class Watched(FakeHost):
    """Remembers which programs were run, and with how much time."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.given: list[float] = []

    def python(self, name: str, program: str, timeout_s: float) -> Result:
        assert (name, "def dump(" in program) == ("nvml", True)
        self.given.append(timeout_s)
        return super().python(name, program, timeout_s)


def machine(
    said: str | Result, *, tool: Machine | Result | None = MACHINE, files: dict[str, str | bytes] | None = None
) -> Watched:
    """A machine whose NVML says `said`, and whose nvidia-smi tells of `tool`, fails as it, or is not there."""
    commands: dict[str, Result | str] = {}
    if isinstance(tool, Machine):
        commands.update(made.commands(tool))
    elif tool is not None:
        commands["nvidia-smi -q -x"] = tool
    return Watched({**made.bound(MACHINE), **(files or {})}, commands=commands, programs={"nvml": said})


def codes(found: gpu_build.Cards) -> list[tuple[str, str]]:
    return [(one.code, one.severity) for one in found.findings]


def test_nvml_is_asked_first_and_then_nothing_else() -> None:
    host = machine(printed())
    found = cards.read_cards(host, 40)
    assert found.gpus is not None
    assert [(one.device_class, one.compute_capability, one.form_factor) for one in found.gpus] == [
        ("h100-80g", "9.0", None)
    ] * 2
    assert found.driver == GpuDriver("nvml", None, "580.95.05", "13.1")
    assert (found.findings, host.ran, host.given) == ((), [], [15.0])


def test_a_node_without_cards_starts_nothing() -> None:
    host = Watched(programs={"nvml": printed()})
    assert cards.read_cards(host, 40) == gpu_build.Cards(())
    assert (host.ran, host.given) == ([], [])


def test_a_node_with_a_driver_and_no_card_has_none_and_nothing_is_wrong() -> None:
    host = Watched(commands={"nvidia-smi -q -x": ""}, programs={"nvml": printed(Machine(()))})
    found = cards.read_cards(host, 40)
    assert (found.gpus, found.findings) == ((), ())
    empty = Watched(commands=made.commands(Machine(())), programs={"nvml": failed("missing")})
    other = cards.read_cards(empty, 40)
    assert (other.gpus, other.findings) == ((), ())


@pytest.mark.parametrize(
    ("said", "severity", "reason", "remedy"),
    [
        (failed("missing"), "info", "nvidia-ml-py is not installed", "/usr/bin/python3.9 -m pip install nvidia-ml-py"),
        (failed("library", text="/x.py"), "warn", "is not nvidia-ml-py: /x.py", "install nvidia-ml-py"),
        (failed("import", text="SyntaxError"), "warn", "cannot be imported: SyntaxError", "install nvidia-ml-py"),
        (failed("init", 18), "warn", "Driver/library version mismatch", "Reboot the node"),
        (failed("init", 9), "warn", "Driver Not Loaded", "modprobe nvidia"),
        (failed("init", 12), "warn", "NVML Shared Library Not Found", "libnvidia-ml.so.1"),
        (failed("init", 4), "warn", "Insufficient Permissions", "become: true"),
        (failed("init", 999), "warn", "Unknown Error", "journalctl -k"),
        (failed("init", None, "OSError: no"), "warn", "OSError: no", "journalctl -k"),
        (Result(-9, "", "", timed_out=True), "warn", "did not answer within 15 s", "journalctl -k"),
        (Result(-11, "", ""), "warn", "killed by signal 11", "journalctl -k"),
        (Result(1, "", "MemoryError"), "warn", "status 1 and no answer: MemoryError", "journalctl -k"),
        (Result(0, "hello", ""), "warn", "status 0 and no answer: hello", "journalctl -k"),
        (printed(Machine((Card(0, lost=15), Card(1, lost=15)))), "warn", "none of the cards", "journalctl -k"),
        (printed(Machine(())), "warn", "none of the cards", "journalctl -k"),
        (
            printed(Machine((Card(0), Card(1, mig=(True, True)))), failing={"nvmlDeviceGetMigDeviceHandleByIndex": 4}),
            "warn",
            "does not list the MIG devices of card 1: Insufficient Permissions",
            "become: true",
        ),
    ],
)
def test_falling_back_is_told_with_its_reason_and_what_to_do(
    said: str | Result, severity: str, reason: str, remedy: str
) -> None:
    found = cards.read_cards(machine(said), 40)
    assert found.gpus is not None
    assert [one.uuid for one in found.gpus] == [Card(0).uuid, Card(1).uuid]
    assert found.driver is not None
    assert found.driver.source == "nvidia-smi"
    assert reason in (found.driver.fallback_reason or "")
    (finding,) = found.findings
    assert (finding.code, finding.severity, finding.subject) == ("nvml-fallback", severity, None)
    assert reason in finding.message
    assert remedy in (finding.remedy or "")


def test_a_broken_driver_is_one_finding_and_not_two() -> None:
    found = cards.read_cards(machine(failed("init", 18), tool=MISMATCH), 40)
    assert found.gpus is None
    assert codes(found) == [("driver-library-mismatch", "warn")]
    assert found.driver == GpuDriver(None, "NVML says: Driver/library version mismatch")


def test_a_driver_that_answers_nothing_is_not_blamed_on_a_missing_library() -> None:
    assert codes(cards.read_cards(machine(failed("missing"), tool=MISMATCH), 40)) == [
        ("driver-library-mismatch", "warn")
    ]
    assert codes(cards.read_cards(machine(failed("missing"), tool=None), 40)) == [("nvidia-smi-missing", "warn")]


def test_a_missing_tool_and_a_failing_library_are_two_causes() -> None:
    found = cards.read_cards(machine(failed("init", 12), tool=None), 40)
    assert codes(found) == [("nvidia-smi-missing", "warn"), ("nvml-fallback", "warn")]


def test_a_card_that_nvml_cannot_reach_is_lost_in_its_place_and_its_neighbours_stay() -> None:
    three = Machine((Card(0), Card(1, lost=15), Card(2)))
    host = Watched(made.bound(three), programs={"nvml": printed(three)})
    found = cards.read_cards(host, 40)
    assert found.gpus is not None
    assert [(one.index, one.pci_address, one.uuid) for one in found.gpus] == [
        (0, Card(0).address, Card(0).uuid),
        (1, Card(1).address, None),
        (2, Card(2).address, Card(2).uuid),
    ]
    assert [(one.code, one.severity, one.subject, one.evidence) for one in found.findings] == [
        ("gpu-lost", "block", Card(1).address, ("GPU is lost",))
    ]
    assert host.ran == []


def test_a_card_that_nvml_leaves_out_silently_is_missed() -> None:
    host = Watched(made.bound(Machine((Card(0), Card(1), Card(2)))), programs={"nvml": printed()})
    found = cards.read_cards(host, 40)
    assert [(one.code, one.subject) for one in found.findings] == [("gpu-lost", Card(2).address)]


def test_processes_are_owned_by_cgroup_on_this_path_too() -> None:
    busy = Machine((Card(0, processes=(Process(50), Process(51), Process(52)), used_mib=300), Card(1)))
    files: dict[str, str | bytes] = {
        "/proc/50/cgroup": "0::/system.slice/llmgw-chat.0.0.service\n",
        "/proc/51/cgroup": "0::/user.slice/session-3.scope\n",
    }
    found = cards.read_cards(machine(printed(busy), files=files), 40)
    assert found.gpus is not None
    assert [one.unit for one in found.gpus[0].processes or ()] == ["llmgw-chat.0.0.service", None, None]
    assert codes(found) == [("foreign-memory", "block"), ("foreign-memory-unowned", "warn")]


def test_nvml_leaves_time_for_the_other_path(monkeypatch: pytest.MonkeyPatch) -> None:
    host = machine(Result(-9, "", "", timed_out=True))
    cards.read_cards(host, 10)
    assert host.given == [4.0]
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    late = machine(printed())
    found = cards.read_cards(late, 0)
    assert (found.gpus, late.given, late.ran) == (None, [], [])
