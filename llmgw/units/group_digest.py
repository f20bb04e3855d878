# SPDX-License-Identifier: Apache-2.0
"""The group digest: what all members of a replica over several nodes are started with, as one value.

Guards form a group only with members of the same digest, so that members of different versions never do; and it is in
the process digest of each, so that all of them restart together (R7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llmgw.engines.base import Launch
from llmgw.engines.members import guard_address
from llmgw.model.ids import Digest, NodeName
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.nodekit import unitfile
from llmgw.units.started_with import started_with


def group_digest(
    assignment: Assignment, nodes: Mapping[NodeName, Node], launches: Iterable[tuple[Member, Launch]]
) -> Digest:
    """The digest of all members, each with its launch; their order does not matter."""
    covered = {
        str(member.rank): started_with(assignment, member, nodes[member.node], launch)
        | {"guard": guard_address(member, nodes[member.node])}
        for member, launch in launches
    }
    return Digest(unitfile.digest(covered))
