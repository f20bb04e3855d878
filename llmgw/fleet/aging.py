# SPDX-License-Identifier: Apache-2.0
"""How long facts are true: what is older than the limit of its kind is unknown (D18). Pure.

Identity, sizes, topology, engines, weights and units do not age here: they change when somebody changes them, and
plans are made offline from them. What they say has an age that views show.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from llmgw.nodekit import contract

_MINUTE, _HOUR = 60.0, 3600.0
_NODE, _CARDS, _INSTANCES, _PORTS, _FILESYSTEMS = "", "gpus", "mig_instances", "rdma_ports", "filesystems"
_MEMORY, _GATEWAY = "memory", "gateway"
_Forgets = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of one kind of fact: the part of discovery that reads it, and the fields that it fills, by place.

    A place is a field of the facts that holds one entry or several; `mig_instances` are those of every card, and ""
    is the facts themselves.
    """

    kind: str
    seconds: float
    part: str
    forgets: _Forgets


_GAUGES: _Forgets = {
    _CARDS: ("utilization_percent", "temperature_c", "power_draw_w", "memory_used_mib", "throttle_reasons"),
    _INSTANCES: ("memory_used_mib",),
}
_CARD_HEALTH: _Forgets = {_CARDS: ("recovery_action", "processes"), _INSTANCES: ("processes",)}
_PORT_STATE: _Forgets = {_PORTS: ("state", "physical_state", "active", "lid", "sm_lid")}
_SUBNET: _Forgets = {_PORTS: ("sm_guids", "subnet_port_guids", "subnet_digest", "subnet_port_count", "switch_guid")}
SUBNETS = "subnets"
LIMITS = (
    Limit("gauges", 5 * _MINUTE, "gpus", _GAUGES),
    Limit("available memory", 5 * _MINUTE, "memory", {_MEMORY: ("available_bytes",)}),
    Limit("NVLink state", 15 * _MINUTE, "gpus", {_CARDS: ("fabric",)}),
    Limit("IMEX state", 15 * _MINUTE, "imex", {_NODE: ("imex",)}),
    Limit("port state", 15 * _MINUTE, "rdma", _PORT_STATE),
    Limit("gateway's word", 15 * _MINUTE, "gateway", {_GATEWAY: ("reachable",)}),
    Limit("health of cards", _HOUR, "gpus", _CARD_HEALTH),
    Limit("free space", _HOUR, "storage", {_FILESYSTEMS: ("free_bytes", "answers")}),
    Limit(SUBNETS, 24 * _HOUR, "subnets", _SUBNET),
)
"""By rising limit. docs/reference/discovery.md has this table."""
_PARTS = tuple(dict.fromkeys(limit.part for limit in LIMITS))
_SEVERAL = (_CARDS, _PORTS, _FILESYSTEMS)
FINDINGS_LIMIT_S = _HOUR
"""A blocking finding that is older only keeps new replicas away: it moves nothing (P1b)."""


def aged(facts: contract.NodeFacts, now: float) -> contract.NodeFacts:
    """The facts as they may be believed at `now` (Unix seconds): what is older than its limit is None."""
    names: dict[str, tuple[str, ...]] = {}
    for limit in _passed(facts, now):
        for place, more in limit.forgets.items():
            names[place] = names.get(place, ()) + more
    changes: dict[str, Any] = dict.fromkeys(names.pop(_NODE, ()))
    instances = names.pop(_INSTANCES, ())
    for place, own in names.items():
        known = getattr(facts, place)
        if known is not None:
            changes[place] = tuple(_without(one, own) for one in known) if place in _SEVERAL else _without(known, own)
    cards = changes.get(_CARDS, facts.gpus)
    if instances and cards:
        changes[_CARDS] = tuple(_without_in_instances(gpu, instances) for gpu in cards)
    return replace(facts, **changes) if changes else facts


def forgotten(facts: contract.NodeFacts, now: float) -> tuple[str, ...]:
    """The kinds of facts that the node reported and that are too old at `now`."""
    return tuple(limit.kind for limit in _passed(facts, now) if _tells(facts, limit))


def old_findings(facts: contract.NodeFacts, now: float) -> frozenset[contract.Finding]:
    """The findings that are too old to move a replica."""
    ages = {part: age_of(facts, part, now) or 0.0 for part in {_part(one) for one in facts.findings}}
    return frozenset(one for one in facts.findings if ages[_part(one)] > FINDINGS_LIMIT_S)


def age_of(facts: contract.NodeFacts, part: str, now: float) -> float | None:
    """Seconds since a part was read, 0 for a clock that is ahead; None when its time is not known."""
    probe = next((one for one in facts.probes if one.name == part), None)
    at = facts.collected_at if probe is None or probe.at is None else probe.at
    return None if at is None else max(0.0, now - at)


def _passed(facts: contract.NodeFacts, now: float) -> list[Limit]:
    ages = {part: age_of(facts, part, now) or 0.0 for part in _PARTS}
    return [limit for limit in LIMITS if ages[limit.part] > limit.seconds]


def _tells(facts: contract.NodeFacts, limit: Limit) -> bool:
    return any(
        getattr(one, name) is not None
        for place, names in limit.forgets.items()
        for one in _entries(facts, place)
        for name in names
    )


def _entries(facts: contract.NodeFacts, place: str) -> Iterable[Any]:
    if place == _NODE:
        return (facts,)
    if place == _INSTANCES:
        return (instance for gpu in facts.gpus or () for instance in gpu.mig_instances)
    known = getattr(facts, place)
    return (known or ()) if place in _SEVERAL else filter(None, (known,))


def _without(entry: Any, names: tuple[str, ...]) -> Any:
    """The entry with these fields unknown. Not `replace`, which sets every field anew: there are ten thousand cards."""
    same = copy.copy(entry)
    vars(same).update(dict.fromkeys(names))
    return same


def _without_in_instances(gpu: contract.Gpu, names: tuple[str, ...]) -> contract.Gpu:
    if not gpu.mig_instances:
        return gpu
    return replace(gpu, mig_instances=tuple(_without(instance, names) for instance in gpu.mig_instances))


def _part(finding: contract.Finding) -> str:
    """The part that found it; older modules do not tell, and what they say of devices comes from the cards."""
    return finding.part or "gpus"
