# SPDX-License-Identifier: Apache-2.0
"""The NVLink domain of the showcase: a rack of 18 trays whose cards are one domain, and the IMEX service of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from llmgw.nodekit import contract

CLUSTER = "7c1d2f60-58a3-4e0b-9f6a-2b7e41c0d905"
CLIQUE = 32766
IMEX_DOWN = "gb200-07"
"""Its IMEX service has failed, and it was taken off the list of the others."""
_VERSION = "580.95.05"
_JOINED = contract.GpuFabric(
    state="Completed",
    status="Success",
    cluster_uuid=CLUSTER,
    clique_id=CLIQUE,
    health_summary="Healthy",
    bandwidth="Full",
    route_recovery=False,
    route_unhealthy=False,
    access_timeout_recovery=False,
)
_WAITING = contract.GpuFabric("In Progress")


def joined(facts: contract.NodeFacts, name: str, trays: Mapping[str, str]) -> contract.NodeFacts:
    """The facts of a tray when all are well; `trays` has the address of each."""
    gpus = tuple(replace(gpu, fabric=_JOINED, memory_numa_node=2 + gpu.index * 8) for gpu in facts.gpus or ())
    return replace(facts, gpus=gpus, imex=_up(name, trays))


def since_one_failed(facts: contract.NodeFacts, name: str, trays: Mapping[str, str]) -> contract.NodeFacts:
    """The facts of a tray since the IMEX service of one failed and was taken off the list."""
    listed = {other: address for other, address in trays.items() if other != IMEX_DOWN}
    return replace(facts, imex=_down(listed) if name == IMEX_DOWN else _up(name, listed))


def waiting(gpu: contract.Gpu) -> contract.Gpu:
    """A card whose registration with the domain does not end."""
    return replace(gpu, fabric=_WAITING)


def _up(name: str, listed: Mapping[str, str]) -> contract.Imex:
    nodes = tuple(
        contract.ImexNode(address, "READY", local=other == name, version=_VERSION) for other, address in listed.items()
    )
    return contract.Imex(
        active=True,
        domain_state="UP",
        nodes=nodes,
        channels=(0,),
        configured=tuple(listed.values()),
        unconnected=0,
        installed=True,
        service_state="active",
        daemon_status="READY",
        listed=True,
        channel_count=1,
        channel_major=237,
    )


def _down(listed: Mapping[str, str]) -> contract.Imex:
    return contract.Imex(
        active=False,
        channels=(0,),
        configured=tuple(listed.values()),
        installed=True,
        service_state="failed",
        channel_count=1,
        channel_major=237,
    )
