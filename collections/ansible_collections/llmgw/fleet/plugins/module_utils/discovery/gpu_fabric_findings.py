# SPDX-License-Identifier: BSD-2-Clause
"""What is wrong with the NVLink fabric of a node's cards (D7): with one card's part of it, and between cards.

Private to llmgw and pure. A fabric manager that restarts drops every card at once and running engines survive it, so
none of this blocks: fabric state keeps new replicas away and moves nothing (P1b), which is for placement to see in the
facts themselves.
"""

from __future__ import annotations

from typing import Iterable, Iterator, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding, GpuFabric
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gpu_fabric, shared_findings

_MANAGER = (
    "Look at the fabric manager (systemctl status nvidia-fabricmanager; it must have the driver's version) or, on a "
    "rack, at the node's NVLink registration; on machines with NVLink 5 also at nvlsm and the module ib_umad."
)
_LINKS = "Look at the links (nvidia-smi nvlink -s, nvidia-smi nvlink -e) and at the switches of this domain."


def judge(gpu: contract.Gpu) -> Iterator[Finding]:
    """Findings about one card's part; a fabric that is not complete is told for all cards together."""
    fabric = gpu.fabric
    if fabric is None or not gpu_fabric.completed(fabric):
        return
    if fabric.status is not None and fabric.status.lower() != "success":
        yield Finding(
            code="fabric-failed",
            severity="warn",
            message=f"card {gpu.index} could not join the NVLink fabric: {fabric.status}",
            remedy=_MANAGER,
            subject=gpu.uuid,
        )
    if fabric.incorrect_configuration is not None:
        yield Finding(
            code="fabric-misconfigured",
            severity="warn",
            message=f"the NVLink fabric is wrongly configured for card {gpu.index}: {fabric.incorrect_configuration}",
            remedy="Compare location, partition and firmware of the card with what the fabric's manager expects.",
            subject=gpu.uuid,
        )
    bad = tuple(_unhealthy(fabric))
    if bad:
        yield Finding(
            code="fabric-unhealthy",
            severity="warn",
            message=f"card {gpu.index} has an unhealthy NVLink fabric: {', '.join(bad)}",
            remedy=_LINKS,
            subject=gpu.uuid,
        )
    weak = tuple(_degraded(fabric))
    if weak and not bad:
        yield Finding(
            code="fabric-degraded",
            severity="warn",
            message=f"card {gpu.index} has not its full NVLink bandwidth: {', '.join(weak)}",
            remedy=_LINKS,
            subject=gpu.uuid,
        )


def judge_node(cards: Sequence[contract.Gpu]) -> Iterator[Finding]:
    """Findings about the cards together: those that have not joined, and disagreement about the domain."""
    states = sorted({gpu.fabric.state for gpu in cards if _waits(gpu) and gpu.fabric and gpu.fabric.state})
    for state in states:
        yield from _not_joined(state, [gpu for gpu in cards if gpu.fabric and gpu.fabric.state == state], cards)
    yield from _split(cards)


def _waits(gpu: contract.Gpu) -> bool:
    return gpu.fabric is not None and gpu.fabric.state is not None and not gpu_fabric.completed(gpu.fabric)


def _not_joined(state: str, waiting: Sequence[contract.Gpu], cards: Sequence[contract.Gpu]) -> Iterator[Finding]:
    yield from shared_findings.together(
        waiting,
        cards,
        "fabric-not-joined",
        lambda which: f"the NVLink fabric of {which} is {state}: CUDA programs cannot start there (error 802)",
        _MANAGER,
    )


def _unhealthy(fabric: GpuFabric) -> Iterable[str]:
    if (fabric.health_summary or "").lower() == "unhealthy":
        yield "summary Unhealthy"
    if fabric.route_unhealthy:
        yield "routes could not be recovered"


def _degraded(fabric: GpuFabric) -> Iterable[str]:
    if (fabric.health_summary or "").lower() == "limited capacity":
        yield "limited capacity"
    if (fabric.bandwidth or "").lower() == "degraded":
        yield "bandwidth degraded"
    if fabric.route_recovery:
        yield "routes are being recovered"
    if fabric.access_timeout_recovery:
        yield "recovering from an access that timed out"


def _split(cards: Sequence[contract.Gpu]) -> Iterator[Finding]:
    joined = [gpu for gpu in cards if gpu.fabric is not None and gpu_fabric.completed(gpu.fabric)]
    domains = {gpu_fabric.domain(gpu) for gpu in joined}
    if len(domains) > 1:
        yield Finding(
            code="fabric-split",
            severity="warn",
            message=f"the {len(joined)} cards of this node are in {len(domains)} different NVLink domains: "
            "the node is in none of them as a whole",
            remedy="Compare ClusterUUID and CliqueId of the cards (nvidia-smi -q) and give them one partition.",
            evidence=tuple(f"card {gpu.index}: {_written(gpu_fabric.domain(gpu))}" for gpu in joined),
        )


def _written(key: tuple[str, int] | None) -> str:
    return "no domain" if key is None else f"{key[0]}.{key[1]}"
