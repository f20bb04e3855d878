# SPDX-License-Identifier: BSD-2-Clause
"""The parts about network adapters: InfiniBand and RoCE ports, and what can be seen of the subnet behind each (D8).

Private to llmgw. Loaded on machines that have adapters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import fabric_findings, rdma, rdma_subnet

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.contract import RdmaPort
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.probes import Probes
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_RDMA_S = 10.0
_SUBNETS_S = 40.0


def read_ports(host: Host, probes: Probes) -> tuple[RdmaPort, ...] | None:
    """All ports; None when they cannot be read."""
    asking_s = probes.asking(_RDMA_S)
    answer = probes.ask("rdma", _RDMA_S, lambda: rdma.read_ports(host, asking_s))
    if answer is None:
        return None
    ports, findings = answer
    probes.found("rdma", (*findings, *fabric_findings.judge(ports or ())))
    if not ports:
        return ports
    subnet_s = probes.asking(_SUBNETS_S)
    seen = probes.ask("subnets", _SUBNETS_S, lambda: rdma_subnet.read_subnets(host, ports, subnet_s))
    if seen is None:
        return ports
    probes.found("subnets", seen[1])
    return seen[0]
