# SPDX-License-Identifier: BSD-2-Clause
"""Runs the parts of discovery one after the other, each within its time, and keeps how each went (D15).

Private to llmgw. A part that raises or takes too long costs itself alone: it is unknown, and a finding says why.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Callable, Iterable, TypeVar

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding, Probe
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.quoting import quoted
from ansible_collections.llmgw.fleet.plugins.module_utils.host import within

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_ASKING = 0.9
_LOOKED_AT = 10_000
_T = TypeVar("_T")


class Probes:
    """The parts that a call reads. `deadline` is of time.monotonic; parts that are not `wanted` are passed over."""

    def __init__(self, host: Host, deadline: float, wanted: frozenset[str]) -> None:
        self._host = host
        self._deadline = deadline
        self._wanted = wanted
        self.done: list[Probe] = []
        self.findings: list[Finding] = []

    def left(self, at_most_s: float) -> float:
        """Seconds that a part may take."""
        return max(0.0, min(at_most_s, self._deadline - time.monotonic()))

    def asking(self, at_most_s: float) -> float:
        """Seconds of those that a part may spend on asking; the rest is for making sense of what it is told."""
        return self.left(at_most_s) * _ASKING

    def ask(self, name: str, at_most_s: float, probe: Callable[[], _T]) -> _T | None:
        """What the probe returns; None when the part is not wanted, and with a finding when it raises or is late."""
        if name not in self._wanted:
            return None
        begun = time.monotonic()
        at = self._host.clock()
        try:
            value = self._within(self.left(at_most_s), probe)
        except Exception as error:  # noqa: BLE001 - whatever a machine does to a probe, the others go on (D15)
            detail = quoted(" ".join(f"{type(error).__name__}: {error}"[:_LOOKED_AT].split()))
            self.done.append(Probe(name, _since(begun), ok=False, detail=detail, at=at))
            self.found(name, [_failed(name, detail)])
            return None
        self.done.append(Probe(name, _since(begun), ok=True, at=at))
        return value

    def found(self, name: str, findings: Iterable[Finding]) -> None:
        """Keeps findings as those of a part, so that they go when the part is read again."""
        for one in findings:
            evidence = tuple(map(quoted, one.evidence))
            self.findings.append(replace(one, part=name, message=quoted(one.message), evidence=evidence))

    @staticmethod
    def _within(seconds: float, probe: Callable[[], _T]) -> _T:
        # A probe that could not be waited for is not begun: what it starts would outlive the module.
        if seconds <= 0:
            raise TimeoutError("no time was left for it")
        return within(seconds, probe)


def _since(begun: float) -> float:
    return round(time.monotonic() - begun, 4)


def _failed(name: str, detail: str) -> Finding:
    return Finding(
        code="probe-failed",
        severity="warn",
        message=f"the probe '{name}' failed, so its facts are unknown: {detail}",
        remedy="Mend what it names, then look again.",
    )
