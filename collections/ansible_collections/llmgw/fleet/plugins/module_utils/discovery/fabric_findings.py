# SPDX-License-Identifier: BSD-2-Clause
"""What is wrong with the RDMA ports of a node, from their facts (D3, D8). Private to llmgw and pure.

Nothing here blocks: a port that carries nothing keeps replicas off several nodes, and none off this one (P1b).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Iterable, Iterator

from ansible_collections.llmgw.fleet.plugins.module_utils import rdma_ports
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding, RdmaPort

_INIT = "INIT"
_LINK_UP = "LinkUp"
# Numbers that a port does not reach by being cabled and rebooted; both count since the driver was loaded.
_MANY_DOWNS = 10
_MANY_SYMBOL_ERRORS = 1000


def judge(ports: Iterable[RdmaPort]) -> tuple[Finding, ...]:
    """All findings about these ports; a finding's subject is the port (`mlx5_0:1`)."""
    listed = tuple(ports)
    networks = [port for port in listed if _is_network(port)]
    found: list[Finding] = []
    for port in networks:
        found.extend(_state(port))
        found.extend(_errors(port))
    found.extend(_rates(networks))
    found.extend(_mixed(listed))
    found.extend(_unknown_role(listed))
    return tuple(found)


def _is_network(port: RdmaPort) -> bool:
    """Whether the port is a physical one of a network; what it does at the moment does not count."""
    return rdma_ports.why_not(port) in {None, "not-active", "state-unknown", "no-gid"}


def _state(port: RdmaPort) -> Iterator[Finding]:
    subject = rdma_ports.name(port)
    reason = rdma_ports.why_not(port)
    if reason == "no-gid":
        yield Finding(
            code="rdma-no-gid",
            severity="info",
            message=f"RoCE port {subject} is active and has no GID: nothing can reach it from here",
            remedy="Give its network interface an address, or run where the interface is visible.",
            subject=subject,
        )
    if reason != "not-active":
        return
    if port.kind == rdma_ports.INFINIBAND and port.physical_state == _LINK_UP and port.state == _INIT:
        yield Finding(
            code="rdma-no-subnet-manager",
            severity="warn",
            message=f"InfiniBand port {subject} is cabled and no subnet manager has set it up",
            remedy="Start the fabric's subnet manager (UFM, OpenSM), or look why it leaves this port out.",
            subject=subject,
        )
        return
    yield Finding(
        code="rdma-port-down",
        severity="info",
        message=f"port {subject} is {port.state or 'not active'} ({port.physical_state or 'physical state unknown'})",
        remedy="Nothing if it is not meant to be used; else check its cable and the switch port.",
        subject=subject,
    )


def _errors(port: RdmaPort) -> Iterator[Finding]:
    subject = rdma_ports.name(port)
    if (port.link_downed or 0) >= _MANY_DOWNS:
        yield Finding(
            code="rdma-link-flaps",
            severity="info",
            message=f"the link of port {subject} went down {port.link_downed} times",
            remedy="If the number grows, reseat or replace the cable or transceiver.",
            subject=subject,
        )
    if (port.symbol_errors or 0) >= _MANY_SYMBOL_ERRORS:
        yield Finding(
            code="rdma-symbol-errors",
            severity="info",
            message=f"port {subject} counted {port.symbol_errors} symbol errors",
            remedy="If the number grows, clean or replace the cable or transceiver.",
            subject=subject,
        )


def _rates(ports: Iterable[RdmaPort]) -> Iterator[Finding]:
    """A port that is slower than others on the same model of board has usually lost lanes."""
    boards: dict[tuple[str, str | None], list[tuple[RdmaPort, float]]] = defaultdict(list)
    for port in ports:
        if port.active and port.board_id is not None and port.rate_gbps is not None:
            boards[port.board_id, port.link_layer].append((port, port.rate_gbps))
    for alike in boards.values():
        fastest = max(rate for _port, rate in alike)
        for port, rate in alike:
            subject = rdma_ports.name(port)
            if rate < fastest:
                yield Finding(
                    code="rdma-rate-low",
                    severity="warn",
                    message=f"port {subject} runs at {rate:g} Gb/s, others on its model of board at {fastest:g} Gb/s",
                    remedy="Check cable, transceiver and the switch port's speed; a port that lost lanes stays slow.",
                    subject=subject,
                )


def _mixed(ports: Iterable[RdmaPort]) -> Iterator[Finding]:
    kinds: dict[str, list[str]] = defaultdict(list)
    for port in ports:
        if rdma_ports.is_candidate(port) and port.kind in {rdma_ports.INFINIBAND, rdma_ports.ROCE}:
            kinds[port.kind].append(rdma_ports.name(port))
    if len(kinds) > 1:
        yield Finding(
            code="rdma-mixed-link-layers",
            severity="info",
            message="this node has active InfiniBand and RoCE ports; engines are given those of one fabric only",
            evidence=tuple(f"{kind}: {', '.join(names)}" for kind, names in sorted(kinds.items())),
        )


def _unknown_role(ports: Iterable[RdmaPort]) -> Iterator[Finding]:
    names = [rdma_ports.name(port) for port in ports if port.switch_management is None and port.kind is not None]
    if names:
        yield Finding(
            code="rdma-role-unknown",
            severity="info",
            message=f"whether {len(names)} ConnectX ports are a network or the way to NVSwitches cannot be told",
            remedy="Let discovery run as root: only the adapter's VPD tells, and only root may read it.",
            evidence=tuple(names),
        )
