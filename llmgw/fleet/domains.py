# SPDX-License-Identifier: Apache-2.0
"""Multi-node NVLink domains, from the fabric state of every card and the IMEX service of every node (D7, P5). Pure.

A domain is one non-zero ClusterUUID and one CliqueId: cliques of unrelated racks have equal numbers. What is not known
is in no domain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address

from llmgw.model.fabric import DomainMember, NvlinkDomain
from llmgw.model.ids import NodeName
from llmgw.nodekit import contract

Key = tuple[str, int]
SPLIT = "fabric-split"
"""Code of the finding that a node's cards disagree; discovery has it too."""
_SHORT = 8
_NAMED = 4
"""How many nodes a sentence names before it counts."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that may be in a domain. `address` is the one that the inventory gives it."""

    name: str
    address: str
    facts: contract.NodeFacts


@dataclass(frozen=True, slots=True)
class Domains:
    """The domains, sorted by name, and what is wrong with them at each node."""

    domains: tuple[NvlinkDomain, ...]
    findings: dict[str, tuple[contract.Finding, ...]] = field(default_factory=dict)


def find(nodes: Iterable[Candidate]) -> Domains:
    """The domains that the nodes' cards tell."""
    grouped: dict[Key, list[Candidate]] = {}
    findings: dict[str, tuple[contract.Finding, ...]] = {}
    for node in sorted(nodes, key=lambda one: one.name):
        keys = {key for gpu in node.facts.gpus or () if (key := key_of(gpu.fabric)) is not None}
        # A node that knows this finding of itself tells it better.
        if len(keys) > 1 and all(one.code != SPLIT for one in node.facts.findings):
            findings[node.name] = (_disagreement(keys),)
        for key in keys if len(keys) == 1 else ():
            grouped.setdefault(key, []).append(node)
    names = _names(grouped)
    domains = [
        NvlinkDomain(names[key], key[0], key[1], _members(names[key], key, found)) for key, found in grouped.items()
    ]
    for domain in domains:
        for member in domain.members:
            if member.kept_out:
                findings[member.node] = (_kept_out(member),)
    return Domains(tuple(sorted(domains, key=lambda one: one.name)), findings)


def key_of(fabric: contract.GpuFabric | None) -> Key | None:
    """The domain that a card is told to be in; None on a machine whose NVSwitch ends at its case, and when unknown."""
    if fabric is None or fabric.cluster_uuid is None or fabric.clique_id is None:
        return None
    uuid = fabric.cluster_uuid.strip().lower()
    return (uuid, fabric.clique_id) if uuid.strip("0-") else None


def is_joined(fabric: contract.GpuFabric | None) -> bool:
    """Whether a card is usable in its domain: its state is Completed, with success, and its health is not bad."""
    return (
        fabric is not None
        and key_of(fabric) is not None
        and _is(fabric.state, "completed")
        and (fabric.status is None or _is(fabric.status, "success"))
        and not _is(fabric.health_summary, "unhealthy")
    )


def is_degraded(fabric: contract.GpuFabric | None) -> bool:
    """Whether a card has less than its full NVLink bandwidth."""
    return fabric is not None and (_is(fabric.bandwidth, "degraded") or _is(fabric.health_summary, "limited capacity"))


def _is(word: str | None, expected: str) -> bool:
    return word is not None and word.strip().lower() == expected


def _names(keys: Iterable[Key]) -> dict[Key, str]:
    short = {key: f"{key[0][:_SHORT]}.{key[1]}" for key in keys}
    count = Counter(short.values())
    return {key: name if count[name] == 1 else f"{key[0]}.{key[1]}" for key, name in short.items()}


def _members(domain: str, key: Key, nodes: Sequence[Candidate]) -> tuple[DomainMember, ...]:
    members = {node.name: _member(domain, key, node) for node in nodes}
    able = [node for node in nodes if not members[node.name].kept_out]
    for name, reason in _unlisted(able).items():
        members[name] = replace(members[name], kept_out=(reason,))
    return tuple(replace(members[node.name], ready=not members[node.name].kept_out) for node in nodes)


def _member(domain: str, key: Key, node: Candidate) -> DomainMember:
    cards = node.facts.gpus or ()
    joined = [gpu for gpu in cards if key_of(gpu.fabric) == key and is_joined(gpu.fabric)]
    up = None if node.facts.imex is None else _up(node.facts.imex)
    reasons = []
    if len(joined) < len(cards):
        out = [f"card {gpu.index}: {_why_out(gpu.fabric, key)}" for gpu in cards if gpu not in joined]
        reasons.append(f"{len(out)} of {len(cards)} cards not joined ({', '.join(out)})")
    if up is None:
        reasons.append("whether IMEX is up is not known")
    elif not up:
        reasons.append(f"IMEX is {_imex_word(node.facts.imex)}")
    elif not _lists_itself(node):
        reasons.append(f"its IMEX list does not have the node itself ({node.address})")
    return DomainMember(
        node=NodeName(node.name),
        domain=domain,
        cards=len(cards),
        joined=len(joined),
        degraded=sum(is_degraded(gpu.fabric) for gpu in joined),
        imex_up=up,
        kept_out=tuple(reasons),
    )


def _why_out(fabric: contract.GpuFabric | None, key: Key) -> str:
    if fabric is None or fabric.state is None:
        return "state not known"
    if not _is(fabric.state, "completed"):
        return fabric.state
    if fabric.status is not None and not _is(fabric.status, "success"):
        return fabric.status
    return "in no domain" if key_of(fabric) != key else fabric.health_summary or "not known"


def _up(imex: contract.Imex) -> bool | None:
    if imex.domain_state is not None:
        return _is(imex.domain_state, "up")
    return False if imex.active is False else None


def _imex_word(imex: contract.Imex | None) -> str:
    return (imex.domain_state or imex.service_state or "not running") if imex else "not known"


def _unlisted(nodes: Sequence[Candidate]) -> dict[str, str]:
    """Nodes that must stay out so that the lists of all others have one another, each with the reason.

    The one that most relations fail with goes first: a list that lacks many keeps its own node out, and not the many.
    """
    shown = {node.name: _shown(node.facts.imex) for node in nodes}
    lacking = {
        node.name: {other.name for other in nodes if other is not node and not shown[node.name] & _identities(other)}
        for node in nodes
    }
    out: dict[str, str] = {}
    while True:
        broken = {
            name: (missing, {other for other, theirs in lacking.items() if name in theirs})
            for name, missing in lacking.items()
        }
        name = max(sorted(broken), key=lambda one: len(broken[one][0] | broken[one][1]), default=None)
        if name is None or not any(broken[name]):
            return out
        missing, by = broken[name]
        said = [f"its IMEX list lacks {_some(missing)}"] if missing else []
        said += [f"the IMEX list of {_some(by)} lacks it"] if by else []
        out[name] = ", and ".join(said)
        del lacking[name]
        for theirs in lacking.values():
            theirs.discard(name)


def _some(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
    return ", ".join(ordered[:_NAMED]) + more


def _lists_itself(node: Candidate) -> bool:
    imex = node.facts.imex
    if imex is not None and imex.listed is not None:
        return imex.listed
    return bool(_shown(imex) & _identities(node))


def _shown(imex: contract.Imex | None) -> frozenset[str]:
    """Names and addresses of the nodes on an IMEX list, without those that it cannot talk to."""
    usable = [entry for entry in (imex.nodes if imex else ()) if entry.status is None or _is(entry.status, "ready")]
    return frozenset(
        {*(_plain(entry.address) for entry in usable), *(_host(entry.hostname) for entry in usable)} - {""}
    )


def _identities(node: Candidate) -> frozenset[str]:
    """Names and addresses under which a list may have a node: IMEX may use another network than the inventory."""
    system = node.facts.system
    own = {entry.address for entry in (node.facts.imex.nodes if node.facts.imex else ()) if entry.local}
    names = {_host(node.name), _host(system.hostname if system else None), *map(_plain, {node.address, *own})}
    return frozenset(names - {"", "localhost"})


def _host(name: str | None) -> str:
    """A host name without its domain: in one rack those names differ."""
    return (name or "").lower().partition(".")[0]


def _plain(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        return _host(text)


def _disagreement(keys: Iterable[Key]) -> contract.Finding:
    told = ", ".join(f"{uuid}.{clique}" for uuid, clique in sorted(keys))
    return contract.Finding(
        SPLIT,
        "warn",
        f"the cards of this node are in different NVLink domains: {told}",
        remedy="It is in none of them until its cards agree: restart the fabric manager, or reboot the node.",
    )


def _kept_out(member: DomainMember) -> contract.Finding:
    return contract.Finding(
        "nvlink-not-ready",
        "warn",
        f"it takes no part in replicas over several nodes of NVLink domain {member.domain}: {member.kept_out[0]}",
        remedy="Look at the fabric manager for cards that are not joined, and at nvidia-imex and its node list, which "
        "must be the same on every node.",
        subject=member.domain,
        evidence=member.kept_out[1:],
    )
