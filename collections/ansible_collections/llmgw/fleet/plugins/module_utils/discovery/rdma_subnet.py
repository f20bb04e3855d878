# SPDX-License-Identifier: BSD-2-Clause
"""Asks each InfiniBand port which subnet it is in (D9): subnet manager, leaf switch, and all adapter ports in it.

Private to llmgw. This is the evidence that proves fabrics; it needs infiniband-diags and the right to send management
datagrams. It costs the fabric a walk over all of its switches, once for each subnet: belongs to what is read rarely.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from typing import Callable, NamedTuple, Sequence, TypeVar

from ansible_collections.llmgw.fleet.plugins.module_utils import rdma_ports
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding, RdmaPort
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host, Result
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import ib_tools
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

SUBNET_MANAGER = "sminfo"
NEIGHBOUR = "smpquery"
WALK = "ibnetdiscover"
_ONE_S = 4.0
_WALK_S = 15.0
# A GUID takes 22 bytes of the facts; a node's facts have room for 64 KiB. Larger subnets are compared by digest.
GUIDS_KEPT = 512
_DIGEST_LENGTH = 32
_QUOTE = 200
_T = TypeVar("_T")


class _Asking(NamedTuple):
    """Commands that together end by a deadline (of time.monotonic), and what those said that failed."""

    host: Host
    deadline: float
    failures: list[str]

    def read(self, at_most_s: float, argv: Sequence[str], read: Callable[[str], _T]) -> _T | None:
        """The reading of what a command prints; None when it is missing, fails or comes too late."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            self.failures.append(f"{argv[0]}: no time left")
            return None
        if self.host.which(argv[0]) is None:
            return None
        answer = self.host.run(argv, min(at_most_s, left))
        try:
            if answer.rc == 0:
                return read(answer.stdout)
        except Unreadable:
            pass
        self.failures.append(_said(argv[0], answer))
        return None


def read_subnets(
    host: Host, ports: Sequence[RdmaPort], budget_s: float
) -> tuple[tuple[RdmaPort, ...], tuple[Finding, ...]]:
    """The ports with what is known of their subnets, within `budget_s` seconds. Without the tools nothing is known."""
    asked = [port for port in ports if rdma_ports.is_candidate(port) and port.kind == rdma_ports.INFINIBAND]
    if not asked or all(host.which(tool) is None for tool in (SUBNET_MANAGER, NEIGHBOUR, WALK)):
        return tuple(ports), ()
    asking = _Asking(host, time.monotonic() + budget_s, [])
    subnets: list[tuple[str, ...]] = []
    found: dict[str, RdmaPort] = {}
    for port in asked:
        known = _ask(asking, port)
        subnet = next((one for one in subnets if port.port_guid in one), None)
        if subnet is None:
            subnet = _walk(asking, port)
            subnets.extend([subnet] if subnet else [])
        found[rdma_ports.name(port)] = _in_subnet(known, subnet)
    told = _with_lists([found.get(rdma_ports.name(port), port) for port in ports], subnets)
    return told, _unknown(asking.failures)


def _ask(asking: _Asking, port: RdmaPort) -> RdmaPort:
    place = ("-C", port.device, "-P", str(port.port))
    manager = asking.read(_ONE_S, (SUBNET_MANAGER, *place), ib_tools.subnet_manager)
    hop = (NEIGHBOUR, *place, "-D", "nodeinfo", f"0,{port.port}")
    return replace(
        port,
        sm_guids=None if manager is None else (manager,),
        switch_guid=asking.read(_ONE_S, hop, ib_tools.neighbour_switch),
    )


def _walk(asking: _Asking, port: RdmaPort) -> tuple[str, ...] | None:
    """All adapter ports in a port's subnet; None as well when the port itself is not among them."""
    place = ("-p", "-C", port.device, "-P", str(port.port))
    found = asking.read(_WALK_S, (WALK, *place), ib_tools.adapter_ports)
    if found is not None and port.port_guid not in found:
        asking.failures.append(f"{WALK}: port {rdma_ports.name(port)} is not in the subnet that it found")
        return None
    return found


def _in_subnet(port: RdmaPort, subnet: tuple[str, ...] | None) -> RdmaPort:
    return port if subnet is None else replace(port, subnet_digest=_digest(subnet), subnet_port_count=len(subnet))


def _with_lists(ports: Sequence[RdmaPort], subnets: Sequence[tuple[str, ...]]) -> tuple[RdmaPort, ...]:
    """The ports, the first of each subnet with its list, as long as all lists together are short enough."""
    lists: dict[str, tuple[str, ...]] = {}
    room = GUIDS_KEPT
    for subnet in subnets:
        if len(subnet) <= room:
            lists[_digest(subnet)] = subnet
            room -= len(subnet)
    told: list[RdmaPort] = []
    for port in ports:
        listed = lists.pop(port.subnet_digest, None) if port.subnet_digest else None
        told.append(port if listed is None else replace(port, subnet_port_guids=listed))
    return tuple(told)


def _digest(subnet: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(subnet).encode()).hexdigest()[:_DIGEST_LENGTH]


def _said(command: str, answer: Result) -> str:
    if answer.timed_out:
        return f"{command}: no answer in time"
    lines = [line.strip() for line in (answer.stderr + "\n" + answer.stdout).splitlines() if line.strip()]
    last = lines[-1] if lines else f"exit status {answer.rc}"
    return (last if last.startswith(command) else f"{command}: {last}")[:_QUOTE]


def _unknown(failures: Sequence[str]) -> tuple[Finding, ...]:
    if not failures:
        return ()
    finding = Finding(
        code="rdma-subnet-unknown",
        severity="info",
        message="some InfiniBand ports could not be asked for their subnet: their fabric stays unproved",
        remedy="Let discovery run as root with ib_umad loaded, or accept the declared fabric without proof.",
        evidence=tuple(dict.fromkeys(failures))[:4],
    )
    return (finding,)
