# SPDX-License-Identifier: Apache-2.0
"""Findings of the showcase's nodes: what discovery's own judges say of the facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import (
    fabric_findings,
    gpu_findings,
    imex_findings,
    storage_findings,
    topology_findings,
    xid_findings,
)
from llmgw.nodekit import contract


def judged(facts: contract.NodeFacts, lost: Mapping[int, str]) -> contract.NodeFacts:
    """The facts with their findings; `lost` has what the driver says of cards that do not answer, by index."""
    gpus = facts.gpus or ()
    well = [gpu for gpu in gpus if gpu.index not in lost]
    found: list[contract.Finding] = []
    found += _of("gpus", (gpu_findings.lost(gpu, lost[gpu.index]) for gpu in gpus if gpu.index in lost))
    found += _of("gpus", gpu_findings.judge(well))
    found += _of("topology", topology_findings.links_down(well))
    found += _of("xids", (one for gpu in gpus for one in xid_findings.of_card(gpu)))
    found += _of("imex", imex_findings.judge(facts.imex, gpus) if facts.imex is not None else ())
    found += _of("rdma", fabric_findings.judge(facts.rdma_ports or ()))
    found += _of("storage", storage_findings.judge(facts.filesystems or ()))
    return replace(facts, findings=tuple(found))


def _of(part: str, findings: Iterable[contract.Finding]) -> list[contract.Finding]:
    return [replace(one, part=part) for one in findings]
