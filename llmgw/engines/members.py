# SPDX-License-Identifier: Apache-2.0
"""What the members of a replica over several nodes are told: where they meet, and by which network they talk (P5).

A member has ports in a row, of which its unit names the first: HTTP, the engine's rendezvous (the leader's counts), and
the guard of its group. So a replica that stays meets where it met. Whoever hands out ports reserves all of them
(`ports_needed`).
"""

from __future__ import annotations

import ipaddress

from llmgw.capability.derived_ports import ports_from_the_meeting
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ProfileSpec

RENDEZVOUS_OFFSET = 1
GUARD_OFFSET = 2
PORTS_OF_A_MEMBER = 3
"""Of a replica over several nodes."""


def ports_needed(profile: ProfileSpec) -> int:
    """How many ports in a row each member takes on its node, from `Member.port` on."""
    of_its_own = PORTS_OF_A_MEMBER if profile.nodes > 1 else 1 + RENDEZVOUS_OFFSET if profile.data_parallel > 1 else 1
    return of_its_own + ports_from_the_meeting(profile.engine, profile.args)


def rendezvous(assignment: Assignment, leader: Node) -> tuple[str, int]:
    """Address and port at which the members of a replica meet. `leader`: the node of rank 0."""
    return leader.address, assignment.leader.port + RENDEZVOUS_OFFSET


def guard_address(member: Member, node: Node) -> str:
    """Where the guard of a member listens, as `ADDRESS:PORT`."""
    return with_port(node.address, member.port + GUARD_OFFSET)


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
