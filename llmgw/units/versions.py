# SPDX-License-Identifier: Apache-2.0
"""Which settings a node's systemd knows: one that is too new for it would be a warning at every start."""

from __future__ import annotations

from collections.abc import Iterable

from llmgw.model.node import Node

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


def known(lines: Iterable[str], node: Node) -> list[str]:
    """The lines whose setting the node's systemd has."""
    system = node.facts.system if node.facts is not None else None
    version = system.systemd_version if system is not None else None
    has = ASSUMED if version is None else version
    return [line for line in lines if _SINCE.get(line.partition("=")[0], 0) <= has]
