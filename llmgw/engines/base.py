# SPDX-License-Identifier: Apache-2.0
"""What an engine must answer: whether it can serve a profile, how it is launched, when it is ready, how it ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from llmgw.model.ids import EngineKind
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ProfileSpec
from llmgw.model.unit import Readiness


@dataclass(frozen=True, slots=True)
class Launch:
    """How one member is started. `argv[0]` is an absolute path on the node; nothing here is secret (R10)."""

    argv: tuple[str, ...]
    env: dict[str, str]
    readiness: Readiness
    stop_timeout_s: int
    """Longest time from SIGTERM to the last process gone; the unit's TimeoutStopSec."""


@dataclass(frozen=True, slots=True)
class MetricNames:
    """The engine's own metric names for what routing asks (domain.md K); None: the engine does not report it."""

    running: str
    waiting: str
    kv_usage: str | None = None
    prefix_hits: str | None = None
    prefix_queries: str | None = None


@dataclass(frozen=True, slots=True)
class Traits:
    """Facts about an engine that do not depend on a replica."""

    kind: EngineKind
    default_command: str
    """Where the engine role installs it."""
    drains_on_sigterm: bool
    aborts_on_disconnect: bool
    metrics: MetricNames
    log_patterns: dict[str, str] = field(default_factory=dict)


class Engine(Protocol):
    """One engine kind."""

    traits: Traits

    def refusal(self, profile: ProfileSpec) -> str | None:
        """Why this engine cannot serve the profile anywhere, as a sentence; None when it can."""

    def launch(self, assignment: Assignment, member: Member, node: Node) -> Launch:
        """How the member is started on its node."""


def command_of(traits: Traits, node: Node) -> tuple[str, ...]:
    """The engine's command on a node: what its facts found, else the host variable, else where the role installs it.

    Facts come first because the host variable led them, and they know the program in a folder that it names.
    """
    for engine in (node.facts.engines or ()) if node.facts else ():
        if engine.kind == traits.kind and engine.command:
            return engine.command
    return node.settings.engine_commands.get(traits.kind, (traits.default_command,))


def http_readiness(assignment: Assignment, member: Member, node: Node, expect_model: str) -> Readiness:
    """Readiness of a leader: /health, then /v1/models lists the expected name (R7)."""
    return Readiness(
        kind="http",
        address=node.address,
        port=member.port,
        expect_model=expect_model,
        start_timeout_s=assignment.profile.start_timeout_s,
        ready_timeout_s=assignment.profile.ready_timeout_s,
    )


def single_process_refusal(profile: ProfileSpec, kind: str, ignored: Iterable[str] = ()) -> str | None:
    """Why an engine that runs as one process on one node cannot serve a profile; None when it can.

    `ignored`: fields of the profile that the engine has no use for; a value in one is refused, never silently ignored.
    """
    if profile.nodes > 1:
        return f"{kind} runs on one node, the profile asks for {profile.nodes}"
    if profile.pipeline_parallel > 1:
        return f"{kind} has no pipeline parallelism, the profile asks for pp={profile.pipeline_parallel}"
    named = [field for field in ignored if getattr(profile, field)]
    return f"{kind} has no use for {', '.join(named)}: take it out of the profile" if named else None
