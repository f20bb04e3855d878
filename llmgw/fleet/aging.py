# SPDX-License-Identifier: Apache-2.0
"""How long facts are true: what is older than the limit of its kind is unknown (D18). Pure.

Identity, sizes, topology, engines, weights and units do not age here: they change when somebody changes them, and
plans are made offline from them. What they say has an age that views show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from llmgw.nodekit import contract

_MINUTE, _HOUR = 60.0, 3600.0


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of one kind of fact: the part of discovery that reads it, and what is forgotten of it."""

    kind: str
    seconds: float
    part: str
    forget: Callable[[contract.NodeFacts], contract.NodeFacts]


def _no_gauges(facts: contract.NodeFacts) -> contract.NodeFacts:
    return _each_card(
        facts,
        lambda gpu: replace(
            gpu,
            utilization_percent=None,
            temperature_c=None,
            power_draw_w=None,
            memory_used_mib=None,
            throttle_reasons=None,
            mig_instances=tuple(replace(instance, memory_used_mib=None) for instance in gpu.mig_instances),
        ),
    )


def _no_available_memory(facts: contract.NodeFacts) -> contract.NodeFacts:
    return facts if facts.memory is None else replace(facts, memory=replace(facts.memory, available_bytes=None))


def _no_card_health(facts: contract.NodeFacts) -> contract.NodeFacts:
    return _each_card(
        facts,
        lambda gpu: replace(
            gpu,
            recovery_action=None,
            processes=None,
            mig_instances=tuple(replace(instance, processes=None) for instance in gpu.mig_instances),
        ),
    )


def _no_card_fabric(facts: contract.NodeFacts) -> contract.NodeFacts:
    return _each_card(facts, lambda gpu: replace(gpu, fabric=None))


def _no_port_state(facts: contract.NodeFacts) -> contract.NodeFacts:
    return _each_port(
        facts, lambda port: replace(port, state=None, physical_state=None, active=None, lid=None, sm_lid=None)
    )


def _no_subnets(facts: contract.NodeFacts) -> contract.NodeFacts:
    return _each_port(
        facts,
        lambda port: replace(
            port,
            sm_guids=None,
            subnet_port_guids=None,
            subnet_digest=None,
            subnet_port_count=None,
            switch_guid=None,
        ),
    )


def _no_free_space(facts: contract.NodeFacts) -> contract.NodeFacts:
    if facts.filesystems is None:
        return facts
    return replace(facts, filesystems=tuple(replace(one, free_bytes=None, answers=None) for one in facts.filesystems))


def _no_gateway(facts: contract.NodeFacts) -> contract.NodeFacts:
    return facts if facts.gateway is None else replace(facts, gateway=replace(facts.gateway, reachable=None))


SUBNETS = "subnets"
LIMITS = (
    Limit("gauges", 5 * _MINUTE, "gpus", _no_gauges),
    Limit("available memory", 5 * _MINUTE, "memory", _no_available_memory),
    Limit("NVLink state", 15 * _MINUTE, "gpus", _no_card_fabric),
    Limit("IMEX state", 15 * _MINUTE, "imex", lambda facts: replace(facts, imex=None)),
    Limit("port state", 15 * _MINUTE, "rdma", _no_port_state),
    Limit("gateway's word", 15 * _MINUTE, "gateway", _no_gateway),
    Limit("health of cards", _HOUR, "gpus", _no_card_health),
    Limit("free space", _HOUR, "storage", _no_free_space),
    Limit(SUBNETS, 24 * _HOUR, "subnets", _no_subnets),
)
"""By rising limit. docs/reference/discovery.md has this table."""
FINDINGS_LIMIT_S = _HOUR
"""A blocking finding that is older only keeps new replicas away: it moves nothing (P1b)."""


def aged(facts: contract.NodeFacts, now: float) -> contract.NodeFacts:
    """The facts as they may be believed at `now` (Unix seconds): what is older than its limit is None."""
    for limit in _passed(facts, now):
        facts = limit.forget(facts)
    return facts


def forgotten(facts: contract.NodeFacts, now: float) -> tuple[str, ...]:
    """The kinds of facts that the node reported and that are too old at `now`."""
    return tuple(limit.kind for limit in _passed(facts, now) if limit.forget(facts) != facts)


def old_findings(facts: contract.NodeFacts, now: float) -> frozenset[contract.Finding]:
    """The findings that are too old to move a replica."""
    ages = {part: age_of(facts, part, now) or 0.0 for part in {_part(one) for one in facts.findings}}
    return frozenset(one for one in facts.findings if ages[_part(one)] > FINDINGS_LIMIT_S)


def age_of(facts: contract.NodeFacts, part: str, now: float) -> float | None:
    """Seconds since a part was read, 0 for a clock that is ahead; None when its time is not known."""
    probe = next((one for one in facts.probes if one.name == part), None)
    at = facts.collected_at if probe is None or probe.at is None else probe.at
    return None if at is None else max(0.0, now - at)


def _passed(facts: contract.NodeFacts, now: float) -> Iterable[Limit]:
    return [limit for limit in LIMITS if (age_of(facts, limit.part, now) or 0.0) > limit.seconds]


def _part(finding: contract.Finding) -> str:
    """The part that found it; older modules do not tell, and what they say of devices comes from the cards."""
    return finding.part or "gpus"


def _each_card(facts: contract.NodeFacts, change: Callable[[contract.Gpu], contract.Gpu]) -> contract.NodeFacts:
    return facts if facts.gpus is None else replace(facts, gpus=tuple(map(change, facts.gpus)))


def _each_port(
    facts: contract.NodeFacts, change: Callable[[contract.RdmaPort], contract.RdmaPort]
) -> contract.NodeFacts:
    return facts if facts.rdma_ports is None else replace(facts, rdma_ports=tuple(map(change, facts.rdma_ports)))
