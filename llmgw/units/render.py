# SPDX-License-Identifier: Apache-2.0
"""The unit file of one replica member (R5): what it runs, how it ends, and the section that says whose it is."""

from __future__ import annotations

from collections.abc import Mapping

from llmgw.engines.base import Launch, command_of
from llmgw.engines.registry import api_key_secret, engine_of
from llmgw.errors import LlmgwError
from llmgw.model.ids import Digest, NodeName, UnitName
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.model.unit import UnitFile
from llmgw.nodekit import unitfile
from llmgw.units import quoting

STOP_MARGIN_S = 10
RESTART_S = 5
START_LIMIT = 5
START_LIMIT_WINDOW_S = 600
_HARDENING = (
    "NoNewPrivileges=yes",
    "PrivateTmp=yes",
    "ProtectSystem=full",
    "ProtectHome=read-only",
    "ProtectControlGroups=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
)


def render(
    assignment: Assignment,
    member: Member,
    nodes: Mapping[NodeName, Node],
    access: tuple[str, ...] | None = None,  # noqa: ARG001 - see below
) -> UnitFile:
    """The finished unit of a member. `nodes` holds every node of the replica; `access`: the networks and addresses from
    which engines may be reached, None: anyone.

    Raises LlmgwError when its engine is unknown or a text cannot stand in a unit.
    """
    engine = engine_of(assignment.profile.engine)
    if engine is None:
        raise LlmgwError("engine-unknown", f"engine {assignment.profile.engine} cannot be started by this version")
    node = nodes[member.node]
    launch = engine.launch(assignment, member, node, nodes[assignment.leader.node])
    name = UnitName(unitfile.unit_name(assignment.service.name, _number(assignment), member.rank))
    version = _version(assignment, node, name)
    process = Digest(unitfile.digest(_started_with(launch, member, node, version)))
    header = unitfile.Header(
        replica=assignment.replica,
        rank=member.rank,
        members=len(assignment.members),
        profile=assignment.profile.name,
        model=assignment.profile.model.name,
        engine=assignment.profile.engine,
        engine_version=version,
        served_name=assignment.service.served_name,
        address=node.address,
        port=member.port,
        devices=tuple(member.devices),
        memory_min_bytes=assignment.profile.min_memory_bytes,
        domain=member.domain,
        fabric=member.fabric,
        hcas=member.hcas,
        socket_interface=member.socket_interface,
        numa_node=member.numa_node,
        api_key=api_key_secret(assignment.profile),
        process_digest=process,
    )
    body = _body(assignment, node, launch, process, name)
    digest = Digest(unitfile.text_digest(body + unitfile.section(header)))
    text = body + unitfile.section(header._replace(text_digest=digest))
    return UnitFile(
        name=name,
        node=node.name,
        replica=assignment.replica,
        rank=member.rank,
        text=text,
        process_digest=process,
        text_digest=digest,
        readiness=launch.readiness,
        stop_timeout_s=launch.stop_timeout_s + STOP_MARGIN_S,
    )


def _started_with(launch: Launch, member: Member, node: Node, version: str | None) -> dict[str, object]:
    """What the process digest covers: a change in any of it must restart the engine, and nothing else may."""
    return {
        "argv": list(launch.argv),
        "env": dict(sorted(launch.env.items())),
        "devices": list(member.devices),
        "version": version,
        "user": node.settings.engine_user,
    }


def _version(assignment: Assignment, node: Node, name: UnitName) -> str | None:
    """The engine's version on the node; when it cannot be told now, the one the unit was written for, so that nothing
    restarts for it.
    """
    if node.facts is None:
        return None
    engine = engine_of(assignment.profile.engine)
    command = None if engine is None else command_of(engine.traits, node)
    for one in node.facts.engines or ():
        if one.kind == assignment.profile.engine and one.command == command and one.version is not None:
            return one.version
    written = next((unit.text for unit in node.facts.units or () if unit.name == name and unit.text), None)
    return None if written is None else unitfile.parse(written).engine_version


def _number(assignment: Assignment) -> int:
    return int(assignment.replica.rpartition("/")[2])


def _body(assignment: Assignment, node: Node, launch: Launch, process: Digest, name: UnitName) -> str:
    profile = assignment.profile
    system = node.settings.scope == "system"
    lines = [
        "# Written by llmgw. Edits made here are seen as drift and replaced by the next apply.",
        "[Unit]",
        f"Description=llmgw {quoting.line(assignment.replica)}: {quoting.line(profile.model.name)} on {profile.engine}",
        "After=network-online.target" if system else "After=default.target",
        *(["Wants=network-online.target"] if system else []),
        f"StartLimitIntervalSec={START_LIMIT_WINDOW_S}",
        f"StartLimitBurst={START_LIMIT}",
        "",
        "[Service]",
        "Type=exec",
        "ExecStart=" + " ".join((quoting.program(launch.argv[0]), *map(quoting.word, launch.argv[1:]))),
        "Environment=" + quoting.variable(unitfile.DIGEST_VARIABLE, process),
        *("Environment=" + quoting.variable(key, launch.env[key]) for key in sorted(launch.env)),
        *([f"User={quoting.line(node.settings.engine_user)}"] if system and node.settings.engine_user else []),
        "KillMode=mixed",
        f"TimeoutStopSec={launch.stop_timeout_s + STOP_MARGIN_S}",
        "Restart=on-failure",
        f"RestartSec={RESTART_S}",
        "LimitNOFILE=65536",
        *_output(node, name),
        *(_hardening(launch) if system else ()),
        "",
        "[Install]",
        "WantedBy=multi-user.target" if system else "WantedBy=default.target",
        "",
        "",
    ]
    return "\n".join(lines)


def _hardening(launch: Launch) -> tuple[str, ...]:
    """The sandbox of a system unit; a command that names a file below /tmp could not start with a /tmp of its own."""
    below_tmp = any(argument.startswith(("/tmp/", "/var/tmp/")) for argument in launch.argv)  # noqa: S108 - not our file
    return tuple(line for line in _HARDENING if not (below_tmp and line == "PrivateTmp=yes"))


def _output(node: Node, name: UnitName) -> list[str]:
    """Where the engine's output goes: the journal, or a file on the few machines whose manager has none."""
    facts = node.facts
    if facts is not None and facts.system is not None and facts.system.journal is False:
        path = quoting.line(f"{node.settings.state_dir}/logs/{name.removesuffix('.service')}.log")
        home = "%h" if path.startswith("~/") else ""  # systemd knows the user's home by this name alone
        return [f"StandardOutput=append:{home}{path.removeprefix('~')}", "StandardError=inherit"]
    return []
