# SPDX-License-Identifier: Apache-2.0
"""Discovery gives facts whatever the machine does to the process that reads it."""

from __future__ import annotations

import dataclasses
import os
import signal
import time

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import bounded, node
from llmgw.fleet.joining import joined
from llmgw.nodekit import contract
from tests.support.fake_host import FakeHost

BOOT = "/proc/sys/kernel/random/boot_id"
FILES: dict[str, str | bytes] = {BOOT: "boot-1\n", "/proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 500 kB\n"}


class CrashingHost(FakeHost):
    """A machine that kills what reads its processors."""

    def read(self, path: str, limit: int = 1 << 20) -> bytes | None:
        if path == "/proc/cpuinfo":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().read(path, limit)


class SleepingHost(FakeHost):
    """A machine on which nothing that was begun ends, the looks before the parts included."""

    def which(self, command: str) -> str | None:
        time.sleep(60)
        return super().which(command)


def test_the_facts_are_those_of_node_collect() -> None:
    host = FakeHost(FILES)
    facts = bounded.collect(host, node.Options())
    assert facts.memory == contract.Memory(1000 * 1024, 500 * 1024)
    assert facts.gathered is None


def test_a_part_that_does_not_exist_is_refused_as_ever() -> None:
    with pytest.raises(ValueError, match="there is no part of the facts named 'gpu'"):
        bounded.collect(FakeHost(FILES), node.Options(gather=["gpu"]))


def test_a_crash_costs_no_fact_that_was_known_before() -> None:
    before = bounded.collect(FakeHost(FILES), node.Options())
    facts = bounded.collect(CrashingHost(FILES), node.Options())
    assert facts.gathered == ()
    assert [(one.code, "killed by signal 9" in one.message) for one in facts.findings] == [("discovery-ended", True)]
    after = joined(before, facts)
    assert (after.memory, after.cpu, after.gpus) == (before.memory, before.cpu, before.gpus)
    assert dataclasses.replace(after, findings=(), probes=()).hardware_key == "boot-1 no driver"


def test_a_machine_on_which_nothing_ends_gives_facts_in_time() -> None:
    begun = time.monotonic()
    facts = bounded.collect(SleepingHost(FILES), node.Options(timeout_s=0.5), grace_s=0.5)
    assert time.monotonic() - begun < 40
    assert [one.code for one in facts.findings] == ["discovery-ended"]
