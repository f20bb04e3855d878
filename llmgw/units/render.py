# SPDX-License-Identifier: Apache-2.0
"""The unit file of one replica member (R5): what it runs, how it ends, and the section that says whose it is."""

from __future__ import annotations

import math
from collections.abc import Mapping

from llmgw.engines.engine_version import engine_version
from llmgw.engines.group_versions import with_versions_that_run
from llmgw.engines.registry import api_key_secret, engine_of
from llmgw.errors import LlmgwError
from llmgw.model.ids import Digest, NodeName
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.model.unit import UnitFile
from llmgw.nodekit import unitfile
from llmgw.units.group_digest import group_digest
from llmgw.units.member_unit import MemberUnit
from llmgw.units.restarts import stop_timeout_s
from llmgw.units.service_section import service_section
from llmgw.units.started_with import started_with, unit_name
from llmgw.units.unit_section import unit_section
from llmgw.units.versions import known


def render(
    assignment: Assignment, member: Member, nodes: Mapping[NodeName, Node], access: tuple[str, ...] | None = None
) -> UnitFile:
    """The finished unit of a member. `nodes` holds every node of the replica; `access`: the networks and addresses from
    which engines may be reached, None: anyone.

    Raises LlmgwError when its engine is unknown or a text cannot stand in a unit.
    """
    unit = _member_unit(assignment, member, nodes, access)
    body = _body(unit)
    header = _header(unit)
    digest = Digest(unitfile.text_digest(body + unitfile.section(header)))
    return UnitFile(
        name=unit.name,
        node=unit.node.name,
        replica=assignment.replica,
        rank=member.rank,
        text=body + unitfile.section(header._replace(text_digest=digest)),
        process_digest=unit.process,
        text_digest=digest,
        readiness=unit.launch.readiness,
        stop_timeout_s=stop_timeout_s(unit),
    )


def _member_unit(
    assignment: Assignment, member: Member, nodes: Mapping[NodeName, Node], access: tuple[str, ...] | None
) -> MemberUnit:
    engine = engine_of(assignment.profile.engine)
    if engine is None:
        raise LlmgwError("engine-unknown", f"engine {assignment.profile.engine} cannot be started by this version")
    nodes = with_versions_that_run(assignment, nodes)
    leader = nodes[assignment.leader.node]
    launches = {one.rank: engine.launch(assignment, one, nodes[one.node], leader) for one in assignment.members}
    launch = launches[member.rank]
    covered = started_with(assignment, member, nodes[member.node], launch)
    group = None
    if len(assignment.members) > 1:
        group = group_digest(assignment, nodes, ((one, launches[one.rank]) for one in assignment.members))
        covered["group"] = group
    return MemberUnit(
        name=unit_name(assignment, member),
        assignment=assignment,
        member=member,
        nodes=nodes,
        launch=launch,
        process=Digest(unitfile.digest(covered)),
        group=group,
        drain_s=max(one.stop_timeout_s for one in launches.values()),
        access=access,
    )


def _body(unit: MemberUnit) -> str:
    target = "multi-user.target" if unit.system else "default.target"
    lines = [
        "# Written by llmgw. Edits made here are seen as drift and replaced by the next apply.",
        *unit_section(unit),
        "",
        *known(service_section(unit), unit),
        "",
        "[Install]",
        f"WantedBy={target}",
        "",
        "",
    ]
    return "\n".join(lines)


def _header(unit: MemberUnit) -> unitfile.Header:
    assignment, member, profile = unit.assignment, unit.member, unit.profile
    return unitfile.Header(
        replica=assignment.replica,
        rank=member.rank,
        members=len(assignment.members),
        profile=profile.name,
        model=profile.model.name,
        engine=profile.engine,
        engine_version=engine_version(assignment, member, unit.node),
        served_name=assignment.service.served_name,
        address=unit.node.address,
        port=member.port,
        devices=tuple(member.devices),
        memory_min_bytes=profile.min_memory_bytes,
        domain=member.domain,
        fabric=member.fabric,
        hcas=member.hcas,
        socket_interface=member.socket_interface,
        numa_node=member.numa_node,
        group=unit.group,
        api_key=api_key_secret(profile),
        start_timeout_s=math.ceil(unit.launch.readiness.start_timeout_s),
        ready_timeout_s=math.ceil(unit.launch.readiness.ready_timeout_s),
        process_digest=unit.process,
    )
