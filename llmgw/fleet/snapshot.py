# SPDX-License-Identifier: Apache-2.0
"""The fleet snapshot: every inventory host joined with what is known of it, judged by the rules of P9. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from llmgw.errors import LlmgwError
from llmgw.fleet import aging, domains, fabric_findings, fabrics
from llmgw.fleet.devices import devices_of
from llmgw.fleet.fabric_settings import Declaration, read_declarations
from llmgw.fleet.hosts import Host, Stored
from llmgw.model.ids import NodeName
from llmgw.model.node import DEFAULT_STATE_DIR, FleetSnapshot, GatewayHost, Node, NodeSettings, NodeState
from llmgw.nodekit import contract

STALE_AFTER_S = 3600.0
_DEAD_STATES = ("failed",)


@dataclass(frozen=True, slots=True)
class View:
    """How the hosts were looked at: what counts as lost, and since when gateways may be believed."""

    now: float
    lost_after_s: float = 300.0
    declared_lost: frozenset[str] = field(default_factory=frozenset)


def build_snapshot(hosts: Iterable[Host], stored: Mapping[str, Stored], view: View) -> FleetSnapshot:
    """The fleet at `view.now`, with facts that are too old for it unknown (D18).

    Raises LlmgwError `inventory-value` when a host variable makes no sense.
    """
    hosts = tuple(hosts)
    declared = read_declarations(host for host in hosts if host.node)
    gateways = tuple(_gateway(host, stored.get(host.name, Stored()), view) for host in hosts if host.gateway)
    nodes = (_node(host, stored.get(host.name, Stored()), view, gateways) for host in hosts if host.node)
    return _joined(FleetSnapshot(tuple(sorted(nodes, key=lambda node: node.name)), gateways, view.now), declared)


def _joined(fleet: FleetSnapshot, declared: Mapping[str, tuple[Declaration, ...]]) -> FleetSnapshot:
    """The fleet with what joins its nodes. A lost node is in no fabric: others may have got its addresses."""
    there = [node for node in fleet.nodes if node.state is not NodeState.LOST and node.facts is not None]
    judged = fabrics.judge({node.name: node.facts.rdma_ports for node in there if node.facts}, declared)
    linked = domains.find(domains.Candidate(node.name, node.address, node.facts) for node in there if node.facts)
    member = {one.node: one for domain in linked.domains for one in domain.members}
    of_fabrics = fabric_findings.findings_of(judged, declared)
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


def _node(host: Host, stored: Stored, view: View, gateways: Iterable[GatewayHost]) -> Node:
    known = stored.facts
    facts = None if known is None else aging.aged(known, view.now)
    age = None if known is None or known.collected_at is None else max(0.0, view.now - known.collected_at)
    return Node(
        name=NodeName(host.name),
        address=_text(host, "llmgw_address", _text(host, "ansible_host", host.name)),
        state=_state(host, stored, view, gateways),
        labels=_labels(host),
        cordoned=_flag(host, "llmgw_cordoned") or bool(facts and facts.cordoned),
        drained=_flag(host, "llmgw_drained") or bool(facts and facts.drained),
        facts=facts,
        facts_age_s=age,
        devices=None if facts is None else devices_of(facts, aging.old_findings(facts, view.now)),
        devices_old=facts is not None and (aging.age_of(facts, "gpus", view.now) or 0.0) > aging.FINDINGS_LIMIT_S,
        findings=(facts.findings if facts else ()) + _own_findings(host, stored, age, view.now),
        settings=_settings(host),
    )


def _state(host: Host, stored: Stored, view: View, gateways: Iterable[GatewayHost]) -> NodeState:
    if host.name in view.declared_lost or _flag(host, "llmgw_lost"):
        return NodeState.LOST
    if stored.unreachable_since is not None:
        last = stored.unreachable_since if stored.unreachable_last is None else stored.unreachable_last
        overdue = last - stored.unreachable_since >= view.lost_after_s
        return NodeState.LOST if overdue and _gateways_say_dead(host.name, gateways) else NodeState.UNREACHABLE
    return NodeState.UNSEEN if stored.facts is None else NodeState.OK


def _gateways_say_dead(node: str, gateways: Iterable[GatewayHost]) -> bool:
    """Whether at least one reachable gateway probes endpoints of this node, and all of them say that those fail
    (P9).
    """
    states = [
        endpoint.state
        for gateway in gateways
        if gateway.state is NodeState.OK and gateway.facts is not None and gateway.facts.reachable
        for endpoint in gateway.facts.endpoints
        if endpoint.endpoint.rpartition("@")[2] == node
    ]
    return bool(states) and all(state in _DEAD_STATES for state in states)


def _gateway(host: Host, stored: Stored, view: View) -> GatewayHost:
    facts = aging.aged(stored.facts, view.now).gateway if stored.facts else None
    state = NodeState.UNREACHABLE if stored.unreachable_since is not None else NodeState.OK
    return GatewayHost(NodeName(host.name), state, facts.bundle if facts else None, facts)


def _own_findings(host: Host, stored: Stored, age: float | None, now: float) -> tuple[contract.Finding, ...]:
    found = []
    if stored.error is not None:
        found.append(
            contract.Finding(
                "facts-unreadable",
                "warn",
                f"{stored.error.where}: {stored.error.why}",
                remedy=stored.error.fix,
                subject=None,
            )
        )
    if stored.unreachable_since is not None:
        found.append(
            contract.Finding(
                "node-unreachable",
                "warn",
                f"{host.name} does not answer: {stored.unreachable_reason}",
                remedy="what runs there is left alone; if it is gone for good, set llmgw_lost: true for the host",
            )
        )
    forgotten = aging.forgotten(stored.facts, now) if stored.facts else ()
    if (age is not None and age > STALE_AFTER_S) or aging.SUBNETS in forgotten:
        what = "some facts are old" if age is None or age <= STALE_AFTER_S else f"the facts are {age / 3600:.0f} h old"
        what += f": unknown now are {', '.join(forgotten)}" if forgotten else ""
        found.append(contract.Finding("facts-stale", "info", what, remedy="run `llmgw facts refresh`"))
    return tuple(found)


def _labels(host: Host) -> dict[str, str]:
    labels = _mapping(host, "llmgw_labels")
    for name, value in labels.items():
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise _wrong(host, "llmgw_labels", f"has a value for {name} that YAML did not read as text (quote it)")
    return {str(name): str(value) for name, value in labels.items()}


def _settings(host: Host) -> NodeSettings:
    scope = _text(host, "llmgw_scope", "system")
    if scope not in ("system", "user"):
        raise _wrong(host, "llmgw_scope", "is neither `system` nor `user`")
    commands = {str(kind): _command(host, command) for kind, command in _mapping(host, "llmgw_engine_commands").items()}
    directories = host.variables.get("llmgw_model_dirs", [])
    if not isinstance(directories, list):
        raise _wrong(host, "llmgw_model_dirs", "is not a list of directories")
    user = _text(host, "llmgw_engine_user", "llmgw") if scope == "system" else None
    return NodeSettings(
        scope=scope,
        state_dir=_text(host, "llmgw_state_dir", DEFAULT_STATE_DIR[scope]),
        engine_user=user,
        engine_commands=commands,
        model_dirs=tuple(map(str, directories)),
    )


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
