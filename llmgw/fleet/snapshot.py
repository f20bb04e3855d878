# SPDX-License-Identifier: Apache-2.0
"""The fleet snapshot: every inventory host joined with what is known of it, judged by the rules of P9. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from llmgw.errors import LlmgwError
from llmgw.fleet import aging, domains, fabric_findings, fabrics
from llmgw.fleet.devices import devices_of
from llmgw.fleet.fabric_settings import Declaration, read_declarations
from llmgw.fleet.hosts import Host, Stored
from llmgw.fleet.quarantine import mark_findings
from llmgw.fleet.socket_interfaces import INTERFACE_NAME
from llmgw.model.ids import NodeName
from llmgw.model.node import DEFAULT_STATE_DIR, FleetSnapshot, GatewayHost, Node, NodeSettings, NodeState
from llmgw.nodekit import contract

STALE_AFTER_S = 3600.0
_DEAD_STATES = ("failed",)
_VOLATILE = ("gpus", "memory", "rdma", "storage", "imex")
"""Parts whose age is that of a node's facts: what they say is true for an hour at most."""
_NOISE = re.compile(r"mux_client_\w+: [^\r\n]*(?:\r?\n|$)")


@dataclass(frozen=True, slots=True)
class View:
    """How the hosts were looked at: what counts as lost, and since when gateways may be believed."""

    now: float
    lost_after_s: float = 300.0
    declared_lost: frozenset[str] = field(default_factory=frozenset)


def build_snapshot(
    hosts: Iterable[Host],
    stored: Mapping[str, Stored],
    view: View,
    unjudged: Callable[[LlmgwError], None] | None = None,
) -> FleetSnapshot:
    """The fleet at `view.now`, with facts that are too old for it unknown (D18).

    Raises LlmgwError `inventory-value` when a host variable makes no sense. What is wrong with `llmgw_fabrics` goes to
    `unjudged` where that is given: fabrics and the places of ports are then unknown.
    """
    hosts = tuple(hosts)
    declared: Mapping[str, tuple[Declaration, ...]] | None = None
    try:
        declared = read_declarations(host for host in hosts if host.node)
    except LlmgwError as error:
        if unjudged is None:
            raise
        unjudged(error)
    gateways = tuple(_gateway(host, stored.get(host.name, Stored()), view) for host in hosts if host.gateway)
    dead = _dead_for_gateways(gateways)
    nodes = (_node(host, stored.get(host.name, Stored()), view, dead) for host in hosts if host.node)
    return _joined(FleetSnapshot(tuple(sorted(nodes, key=lambda node: node.name)), gateways, view.now), declared)


def _joined(fleet: FleetSnapshot, declared: Mapping[str, tuple[Declaration, ...]] | None) -> FleetSnapshot:
    """The fleet with what joins its nodes. A lost node is in no fabric: others may have got its addresses."""
    there = [node for node in fleet.nodes if node.state is not NodeState.LOST and node.facts is not None]
    ports: dict[str, tuple[contract.RdmaPort, ...] | None] = {
        node.name: node.facts.rdma_ports for node in there if node.facts
    }
    judged = fabrics.Judged({}, ()) if declared is None else fabrics.judge(ports, declared)
    linked = domains.find(domains.Candidate(node.name, node.address, node.facts) for node in there if node.facts)
    member = {one.node: one for domain in linked.domains for one in domain.members}
    of_fabrics = fabric_findings.findings_of(judged, declared or {})
    nodes = tuple(
        replace(
            node,
            ports=judged.ports.get(node.name),
            domain=member.get(node.name),
            findings=(*node.findings, *of_fabrics.get(node.name, ()), *linked.findings.get(node.name, ())),
        )
        for node in fleet.nodes
    )
    return replace(fleet, nodes=nodes, fabrics=judged.fabrics, domains=linked.domains)


def _node(host: Host, stored: Stored, view: View, dead: frozenset[str]) -> Node:
    known = stored.facts
    facts = None if known is None else aging.aged(known, view.now)
    age = None if known is None or known.collected_at is None else max(0.0, view.now - known.collected_at)
    oldest = None if known is None else _oldest(known, view.now)
    forgotten = () if known is None else aging.forgotten(known, view.now)
    stale = (oldest or 0.0) > STALE_AFTER_S or aging.SUBNETS in forgotten
    return Node(
        name=NodeName(host.name),
        address=_address(host),
        state=_state(host, stored, view, dead),
        labels=_labels(host),
        cordoned=_flag(host, "llmgw_cordoned") or bool(facts and facts.cordoned),
        drained=_flag(host, "llmgw_drained") or bool(facts and facts.drained),
        facts=facts,
        facts_age_s=age,
        oldest_age_s=oldest,
        forgotten=forgotten,
        stale=stale,
        unreachable_since=stored.unreachable_since,
        unreachable_last=stored.unreachable_last,
        devices=None if facts is None else devices_of(facts, aging.old_findings(facts, view.now), host.name),
        devices_old=facts is not None and (aging.age_of(facts, "gpus", view.now) or 0.0) > aging.FINDINGS_LIMIT_S,
        findings=((*facts.findings, *mark_findings(facts, host.name)) if facts else ())
        + _own_findings(host, stored)
        + (_stale(age, oldest, forgotten) if stale else ()),
        settings=_settings(host),
    )


def _state(host: Host, stored: Stored, view: View, dead: frozenset[str]) -> NodeState:
    if host.name in view.declared_lost or _flag(host, "llmgw_lost"):
        return NodeState.LOST
    if stored.unreachable_since is not None:
        last = stored.unreachable_since if stored.unreachable_last is None else stored.unreachable_last
        overdue = last - stored.unreachable_since >= view.lost_after_s
        return NodeState.LOST if overdue and host.name in dead else NodeState.UNREACHABLE
    return NodeState.UNSEEN if stored.facts is None else NodeState.OK


def _dead_for_gateways(gateways: Iterable[GatewayHost]) -> frozenset[str]:
    """The nodes of which at least one reachable gateway probes endpoints, and all of them say that those fail (P9)."""
    states: dict[str, bool] = {}
    for gateway in gateways:
        if gateway.state is NodeState.OK and gateway.facts is not None and gateway.facts.reachable:
            for endpoint in gateway.facts.endpoints:
                node = endpoint.endpoint.rpartition("@")[2]
                states[node] = states.get(node, True) and endpoint.state in _DEAD_STATES
    return frozenset(node for node, dead in states.items() if dead)


def _address(host: Host) -> str:
    return _text(host, "llmgw_address", _text(host, "ansible_host", host.name))


def _gateway(host: Host, stored: Stored, view: View) -> GatewayHost:
    facts = aging.aged(stored.facts, view.now).gateway if stored.facts else None
    state = NodeState.UNREACHABLE if stored.unreachable_since is not None else NodeState.OK
    _state_dir(host, _scope(host))  # where its bundle is: only roles read it
    bundle = facts.bundle if facts else None
    if facts is None and stored.facts and any(one.name == "gateway" and not one.ok for one in stored.facts.probes):
        bundle = contract.PublishedBundle(path="")  # what could not be read may be there
    return GatewayHost(NodeName(host.name), state, bundle, facts, _address(host))


def _own_findings(host: Host, stored: Stored) -> tuple[contract.Finding, ...]:
    found = []
    error = stored.error
    if error is not None:
        found.append(
            contract.Finding("facts-unreadable", "warn", f"{error.where}: {error.why}", remedy=error.fix, subject=None)
        )
    if stored.unreachable_since is not None:
        found.append(
            contract.Finding(
                "node-unreachable",
                "warn",
                f"{host.name} does not answer: {_said(stored.unreachable_reason or 'no reason given')}",
                remedy="what runs there is left alone; if it is gone for good, set llmgw_lost: true for the host",
            )
        )
    return tuple(found)


def _said(reason: str) -> str:
    """What ssh said of the host, without what its multiplexing said of its own socket."""
    rest = " ".join(_NOISE.sub(" ", reason).split())
    return " ".join(reason.split()) if not rest or rest.endswith(":") else rest


def _oldest(facts: contract.NodeFacts, now: float) -> float | None:
    """Seconds since the oldest of the parts was read that every refresh of what changes reads."""
    ages = [aging.age_of(facts, part, now) for part in _VOLATILE]
    return max((age for age in ages if age is not None), default=None)


def _stale(age: float | None, oldest: float | None, forgotten: tuple[str, ...]) -> tuple[contract.Finding, ...]:
    if age is not None and age > STALE_AFTER_S:
        what = f"the facts are {age / 3600:.0f} h old"
    elif oldest is not None and oldest > STALE_AFTER_S:
        what = f"some facts are {oldest / 3600:.0f} h old"
    else:
        what = "some facts are old"
    what += f": unknown now are {', '.join(forgotten)}" if forgotten else ""
    return (contract.Finding("facts-stale", "info", what, remedy="run `llmgw facts refresh`"),)


def _labels(host: Host) -> dict[str, str]:
    labels = _mapping(host, "llmgw_labels")
    for name, value in labels.items():
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise _wrong(host, "llmgw_labels", f"has a value for {name} that YAML did not read as text (quote it)")
    return {str(name): str(value) for name, value in labels.items()}


def _settings(host: Host) -> NodeSettings:
    scope = _scope(host)
    commands = {str(kind): _command(host, command) for kind, command in _mapping(host, "llmgw_engine_commands").items()}
    user = _text(host, "llmgw_engine_user", "llmgw") if scope == "system" else None
    return NodeSettings(
        scope=scope,
        state_dir=_state_dir(host, scope),
        engine_user=user,
        engine_commands=commands,
        model_dirs=_model_dirs(host),
        socket_interface=_interface(host),
    )


def _scope(host: Host) -> str:
    scope = _text(host, "llmgw_scope", "system")
    if scope not in ("system", "user"):
        raise _wrong(host, "llmgw_scope", "is neither `system` nor `user`")
    return scope


def _state_dir(host: Host, scope: str) -> str:
    name = "llmgw_state_dir"
    directory = _text(host, name, DEFAULT_STATE_DIR[scope])
    if not directory.startswith(("/", "~/") if scope == "user" else "/"):
        home = ", and not one below `~/`" if scope == "user" else " (`~/` is for `llmgw_scope: user` alone)"
        raise _wrong(host, name, f"is no absolute path{home}")
    return directory


def _model_dirs(host: Host) -> tuple[str, ...]:
    name = "llmgw_model_dirs"
    directories = host.variables.get(name, [])
    if not isinstance(directories, list):
        raise _wrong(host, name, "is not a list of directories")
    for one in directories:
        if not isinstance(one, str) or not one.startswith("/") or any(character < " " for character in one):
            raise _wrong(
                host, name, "names something else than directories by their absolute paths (`~` is not expanded)"
            )
    return tuple(directories)


def _interface(host: Host) -> str | None:
    name = "llmgw_socket_interface"
    if name not in host.variables:
        return None
    if not INTERFACE_NAME.fullmatch(_text(host, name, "")):
        raise _wrong(host, name, "is no name of one interface, such as `bond0`")
    return str(host.variables[name])


def _command(host: Host, value: Any) -> tuple[str, ...]:
    words = tuple(value) if isinstance(value, list) else (value,)
    if not words or not all(isinstance(word, str) for word in words) or not words[0].startswith("/"):
        raise _wrong(host, "llmgw_engine_commands", "names something else than a program by its absolute path")
    return words


def _text(host: Host, name: str, default: str) -> str:
    value = host.variables.get(name, default)
    if not isinstance(value, str) or not value or any(character < " " for character in value):
        raise _wrong(host, name, "is not a line of text")
    return value


def _flag(host: Host, name: str) -> bool:
    value = host.variables.get(name, False)
    if not isinstance(value, bool):
        raise _wrong(host, name, "is neither true nor false")
    return value


def _mapping(host: Host, name: str) -> Mapping[str, Any]:
    value = host.variables.get(name, {})
    if not isinstance(value, dict):
        raise _wrong(host, name, "is not a mapping")
    return value


def _wrong(host: Host, name: str, what: str) -> LlmgwError:
    return LlmgwError(
        "inventory-value",
        f"{name} of {host.name} {what}: {host.variables.get(name)!r}",
        fix="mend it in the inventory, group_vars or host_vars",
    )
