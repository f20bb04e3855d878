# SPDX-License-Identifier: Apache-2.0
"""What an engine must answer: whether it can serve a profile, how it is launched, when it is ready, how it ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from llmgw.capability.engines import inabilities
from llmgw.engines.deadlines import patience_s
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
    health_path: str = "/health"
    listens_while_loading: bool = False
    """Whether its port opens before its weights are loaded."""
    api_key_variable: str | None = None
    """The variable from which it takes the key that clients must bring; None: it takes none from the environment."""


class Engine(Protocol):
    """One engine kind."""

    traits: Traits

    def refusal(self, profile: ProfileSpec) -> str | None:
        """Why this engine cannot serve the profile anywhere, as a sentence; None when it can."""

    def launch(self, assignment: Assignment, member: Member, node: Node, leader: Node) -> Launch:
        """How the member is started on its node. `leader`: the node of rank 0, the same one for a single member."""


def command_of(traits: Traits, node: Node) -> tuple[str, ...]:
    """The engine's command on a node: what its facts found, else the host variable, else where the role installs it.

    Facts come first because the host variable led them, and they know the program in a folder that it names.
    """
    for engine in (node.facts.engines or ()) if node.facts else ():
        if engine.kind == traits.kind and engine.command:
            return engine.command
    return node.settings.engine_commands.get(traits.kind, (traits.default_command,))


def readiness(
    assignment: Assignment, member: Member, node: Node, leader: Node, traits: Traits, *, source: str
) -> Readiness:
    """How a member is found ready (R7): of the leader its health answers 200, then /v1/models lists the served name;
    any other's unit is up, and its leader is ready. `source`: the model as it is given.
    """
    start_s, ready_s = assignment.profile.start_timeout_s, patience_s(assignment, member, node, source)
    return Readiness(
        kind="leader" if member.rank else "http",
        address=leader.address,
        port=assignment.leader.port,
        health_path=traits.health_path,
        listens_while_loading=traits.listens_while_loading,
        expect_model=assignment.service.served_name,
        start_timeout_s=start_s,
        ready_timeout_s=ready_s,
    )


def device_env(profile: ProfileSpec, member: Member) -> dict[str, str]:
    """The devices by UUID, in the order in which the engine numbers them (P7), and the processor threads. On `cpu` the
    cards of a machine that has some are hidden.
    """
    env = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if member.devices else {}
    env["CUDA_VISIBLE_DEVICES"] = ",".join(member.devices)
    if profile.threads is not None:
        env["OMP_NUM_THREADS"] = str(profile.threads)
    return env


def refused(profile: ProfileSpec) -> str | None:
    """Why the profile's engine cannot serve it, by the engine's table of what it can do; None when it can."""
    first = next(iter(inabilities(profile)), None)
    return None if first is None else f"{first.why}: {first.fix[:1].lower()}{first.fix[1:].rstrip('.')}"


def options(*given: tuple[str, object]) -> list[str]:
    """The options that have a value, each followed by it."""
    return [word for option, value in given if value is not None for word in (option, str(value))]
