# SPDX-License-Identifier: Apache-2.0
"""What the members of a replica over several nodes are told: where they meet, and by which network they talk (P5).

The rendezvous is on the leader's node, at the port after the leader's own: so it follows from what its unit says, and
a replica that stays meets where it met. Whoever hands out ports reserves both (`ports_needed`).
"""

from __future__ import annotations

import ipaddress

from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ProfileSpec

RENDEZVOUS_OFFSET = 1


def ports_needed(profile: ProfileSpec, rank: int) -> int:
    """How many ports in a row a member takes on its node, from `Member.port` on."""
    return 1 + RENDEZVOUS_OFFSET if profile.nodes > 1 and rank == 0 else 1


def rendezvous(assignment: Assignment, leader: Node) -> tuple[str, int]:
    """Address and port at which the members of a replica meet. `leader`: the node of rank 0."""
    return leader.address, assignment.leader.port + RENDEZVOUS_OFFSET


def network(assignment: Assignment, member: Member) -> dict[str, str]:
    """Environment of NCCL and gloo on one node; empty when the replica has no other (domain.md D1, D2).

    Adapters are listed in the exact form: without `=` NCCL takes prefixes, and `mlx5_1` would select `mlx5_10` too.
    Joined by a fabric, the check for multi-node NVLink is off: where IMEX is broken it ends the engine.
    """
    if len(assignment.members) == 1:
        return {}
    env = {"NCCL_DEBUG": assignment.profile.env.get("NCCL_DEBUG", "WARN")}
    if member.domain is not None:
        env["NCCL_MNNVL_ENABLE"] = "1"
    elif member.fabric is not None:
        env["NCCL_MNNVL_ENABLE"] = "0"
    if member.hcas:
        env["NCCL_IB_HCA"] = "=" + ",".join(member.hcas)
    if member.socket_interface is not None:
        env["NCCL_SOCKET_IFNAME"] = f"={member.socket_interface}"
        env["GLOO_SOCKET_IFNAME"] = member.socket_interface
    return env


def own_address(node: Node) -> str | None:
    """The node's address where it is an IP address and no name."""
    try:
        return str(ipaddress.ip_address(node.address))
    except ValueError:
        return None


def with_port(address: str, port: int) -> str:
    """`10.0.0.1:18001`, `[fd00::1]:18001`."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
