# SPDX-License-Identifier: Apache-2.0
"""What the fleet has as a whole, as text: nodes by state, devices by class, fabrics, domains, shared storage (V1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from llmgw.cli.cells import at_least, disk_of, plural, some
from llmgw.cli.table import lines_of
from llmgw.fleet.unplaced import unplaced
from llmgw.fleet.usage import by_class, is_blind
from llmgw.model.fabric import Fabric, NvlinkDomain, Verdict
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.nodekit import contract

_INDENT = "  "
_NAMED = 5
"""How many ports or nodes a line names before it counts."""


def sections(fleet: FleetSnapshot) -> tuple[Iterable[str], ...]:
    """The lines of each summary; a fleet that has nothing of a kind has no lines of it."""
    return (
        _states(fleet.nodes),
        [*_classes(fleet.nodes), *_left_out(fleet.nodes)],
        _fabrics(fleet.fabrics),
        _domains(fleet.domains),
        _shared(fleet),
    )


def _states(nodes: Sequence[Node]) -> Iterator[str]:
    """`200 nodes: 196 ok, 4 unreachable; 2 cordoned, 1 with blocking findings`."""
    counts = Counter(node.state for node in nodes)
    states = ", ".join(f"{counts[state]} {state.value}" for state in NodeState if counts[state])
    marks = (
        ("cordoned", sum(node.cordoned for node in nodes)),
        ("drained", sum(node.drained for node in nodes)),
        ("stale", sum(node.stale and node.state is NodeState.OK for node in nodes)),
        ("with blocking findings", sum(any(one.severity == "block" for one in node.findings) for node in nodes)),
    )
    told = ", ".join(f"{count} {word}" for word, count in marks if count)
    yield f"{plural(len(nodes), 'node')}: {states}{f'; {told}' if told else ''}"
    if counts[NodeState.UNSEEN]:
        yield f"{_INDENT}nothing is known of unseen nodes: `llmgw facts refresh` reads them"


def _classes(nodes: Sequence[Node]) -> Iterator[str]:
    rows = [
        (name, str(one.total), at_least(one.free, one.maybe_free), at_least(one.held, one.maybe_held), str(one.out))
        for name, one in by_class(nodes).items()
    ]
    if rows:
        yield from lines_of([("CLASS", "TOTAL", "FREE", "HELD", "OUT"), *rows])


def _left_out(nodes: Sequence[Node]) -> Iterator[str]:
    """What the numbers by class do not hold, so that nothing vanishes from them."""
    blind = [node.name for node in nodes if is_blind(node)]
    if blind:
        yield f"{_INDENT}free and held leave out {some(blind, _NAMED)}: which units run there is unknown"
    cards = [(node.name, len(unplaced(node.facts) or ())) for node in nodes if node.facts is not None]
    others = [(name, count) for name, count in cards if count]
    if others:
        total = sum(count for _, count in others)
        where = some([name for name, _ in others], _NAMED)
        yield f"{_INDENT}not counted: {plural(total, 'card')} that nothing can be placed on ({where})"
    unknown = [node.name for node in nodes if node.devices is None]
    if unknown:
        where = some(unknown, _NAMED)
        yield f"{_INDENT}not counted: the cards of {plural(len(unknown), 'node')}, which are unknown ({where})"


def _fabrics(fabrics: Sequence[Fabric]) -> Iterator[str]:
    for fabric in fabrics:
        ports = [port for member in fabric.members for port in member.ports]
        counts = Counter(port.verdict for port in ports)
        words = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
        rails = ", independent rails" if fabric.rails == "independent" else ""
        if not ports:
            yield f"fabric {fabric.name} ({fabric.kind}{rails}): {'; '.join(fabric.notes) or 'no port is in it'}"
            continue
        size = f"{plural(len(ports), 'port')} on {plural(len(fabric.members), 'node')}"
        yield f"fabric {fabric.name} ({fabric.kind}{rails}): {size}: {words}"
        wrong = [f"{port.node} {port.name}" for port in ports if port.verdict is Verdict.CONTRADICTED]
        if wrong:
            yield f"{_INDENT}! contradicted: {some(wrong, _NAMED)}"
        for note in fabric.notes:
            yield f"{_INDENT}! {note}"


def _domains(domains: Sequence[NvlinkDomain]) -> Iterator[str]:
    for domain in domains:
        cards = sum(member.cards for member in domain.members)
        joined = sum(member.joined for member in domain.members)
        ready = f"{len(domain.ready)} of {plural(len(domain.members), 'node')} ready"
        yield f"domain {domain.name}: {ready}, {joined} of {cards} cards joined"
        for member in domain.members:
            if member.kept_out:
                yield f"{_INDENT}! {member.node}: {'; '.join(member.kept_out)}"


def _shared(fleet: FleetSnapshot) -> Iterator[str]:
    """Each shared filesystem once, as the node with the newest facts sees it: it is in no node's own total (D11)."""
    found: dict[tuple[str, str], list[tuple[float, contract.Filesystem]]] = {}
    for node in fleet.nodes:
        seen = {
            (one.source or one.mount_point, one.type or ""): one
            for one in (node.facts.filesystems if node.facts else None) or ()
            if one.shared
        }
        for key, one in seen.items():
            found.setdefault(key, []).append((node.facts_age_s or 0.0, one))
    for (source, kind), seen_by in sorted(found.items()):
        _, newest = min(seen_by, key=lambda entry: (entry[1].free_bytes is None, entry[0]))
        where = f"{source} ({kind or '-'}) at {newest.mount_point}"
        yield f"shared storage {where}: {disk_of(newest)} free, on {plural(len(seen_by), 'node')}"
