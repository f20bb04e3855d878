# SPDX-License-Identifier: BSD-2-Clause
"""The facts of this machine, whatever it does to the process that reads them (D15). Private to llmgw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.llmgw.fleet.plugins.module_utils import apart
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding, NodeFacts
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import node

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_GRACE_S = 10.0
"""Discovery ends by itself in time; this is for making sense of what the last part was told."""


def collect(host: Host, options: node.Options, grace_s: float = _GRACE_S) -> NodeFacts:
    """As `node.collect`, in a process of its own. When that one dies, nothing was read, and a finding says so."""
    try:
        return apart.call(lambda: node.collect(host, options), options.timeout_s + grace_s)
    except apart.NoResult as error:
        finding = Finding(
            code="discovery-ended",
            severity="warn",
            message=f"discovery ended before it had read the node: {error}",
            remedy="Look for hung tasks and killed processes in the kernel log (journalctl -k).",
        )
        return NodeFacts(
            module_version=options.module_version,
            collected_at=host.clock(),
            hardware_key=node.hardware_key(host),
            gathered=(),
            findings=(finding,),
        )
