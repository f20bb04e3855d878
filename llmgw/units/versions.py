# SPDX-License-Identifier: Apache-2.0
"""Which settings a node's systemd knows: one that is too new for it would be a warning at every start."""

from __future__ import annotations

from collections.abc import Iterable

from llmgw.units.member_unit import MemberUnit

ASSUMED = 249
"""Where the version is not known: what every distribution that is still cared for has."""
_SINCE = {
    "RestartSteps": 254,
    "RestartMaxDelaySec": 254,
    "ProtectProc": 247,
    "ProtectClock": 245,
    "ProtectKernelLogs": 244,
    "CPUAffinity": 244,  # its value `numa`
    "NUMAPolicy": 244,  # alone, without processors, it would move memory away from them
    "NUMAMask": 244,
    "OOMPolicy": 243,
    "ProtectHostname": 242,
    "RestrictSUIDSGID": 242,
}


def known(lines: Iterable[str], unit: MemberUnit) -> list[str]:
    """The lines whose setting the node's systemd has; while its version is not known, those that are no newer than what
    the unit has already.
    """
    facts = unit.node.facts
    system = facts.system if facts is not None else None
    has = system.systemd_version if system is not None else None
    if has is None:
        before = unit.text_before
        has = max(map(_since, before.split("\n"))) if before else ASSUMED
    too_new = tuple(f"{setting}=" for setting, since in _SINCE.items() if since > has)
    return [line for line in lines if not line.startswith(too_new)]


def _since(line: str) -> int:
    return _SINCE.get(line.partition("=")[0], 0)
