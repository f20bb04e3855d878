# SPDX-License-Identifier: Apache-2.0
"""What a process is started with: what a change of must restart it, and nothing else may (R5).

Sandbox, limits, timeouts, caches and NUMA binding are not in it: they are written into the unit and hold from its next
start on. Secrets are in it by name: their values are in no digest (R10).
"""

from __future__ import annotations

from llmgw.engines.base import Launch
from llmgw.engines.engine_version import engine_version
from llmgw.model.ids import UnitName
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.nodekit import unitfile


def unit_name(assignment: Assignment, member: Member) -> UnitName:
    """The name of a member's unit: `llmgw-chat.0.0.service`."""
    number = int(assignment.replica.rpartition("/")[2])
    return UnitName(unitfile.unit_name(assignment.service.name, number, member.rank))


def started_with(assignment: Assignment, member: Member, node: Node, launch: Launch) -> dict[str, object]:
    """What the process digest of a member covers, as JSON, but for its group."""
    covered: dict[str, object] = {
        "argv": list(launch.argv),
        "env": dict(sorted(launch.env.items())),
        "devices": list(member.devices),
        "version": engine_version(assignment, member, node),
        "user": node.settings.engine_user,
    }
    secrets = assignment.profile.secrets
    # What is empty is left out: a unit that was written before there were secrets must not restart for them.
    return covered | ({"secrets": dict(sorted(secrets.items()))} if secrets else {})
