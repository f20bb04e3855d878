# SPDX-License-Identifier: Apache-2.0
"""The fleet as text: a row for each node, and below it devices by class, fabrics, domains, shared storage (V1)."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from llmgw.cli.cells import age, disk_cell, disk_of, findings_cell, memory_cell, or_dash, plural, usage_cell
from llmgw.cli.facts_text import state_cell
from llmgw.cli.table import lines_of, wrapped
from llmgw.fleet.domains import key_of
from llmgw.fleet.usage import by_class, usage_of
from llmgw.model.fabric import Fabric, FabricPort, NvlinkDomain, Verdict
from llmgw.model.node import FleetSnapshot, Node
from llmgw.nodekit import contract

_HEAD = ("NODE", "STATE", "DEVICES", "MEM", "DISK", "FABRICS", "DOMAIN", "FINDINGS", "AGE")
_BREAKABLE = (2, 3, 4, 5, 6, 7)
_INDENT = "  "
_NAMED = 5
"""How many ports a line names before it counts."""


class Sort(enum.StrEnum):
    """By what the rows are sorted."""

    NAME = "name"
    FREE = "free"
    FINDINGS = "findings"
    AGE = "age"


def fleet_lines(fleet: FleetSnapshot, sort: Sort = Sort.NAME, width: int | None = None) -> list[str]:
    """The table and its summaries, no wider than `width` where that can be done; None: as wide as they are."""
    nodes = sorted(fleet.nodes, key=_SORTS[sort])
    lines = lines_of([_HEAD, *map(_row, nodes)], width, _BREAKABLE)
    for section in (_classes(fleet), _fabrics(fleet.fabrics), _domains(fleet.domains), _shared(fleet)):
        texts = [line for text in section for line in ([text] if width is None else wrapped(text, width, _INDENT * 2))]
        lines += ["", *texts] if texts else []
    return lines


def _worst_first(node: Node) -> tuple[Any, ...]:
    counts = Counter(finding.severity for finding in node.findings)
    return (-counts["block"], -counts["warn"], -counts["info"], node.name)


_SORTS: dict[Sort, Callable[[Node], tuple[Any, ...]]] = {
    Sort.NAME: lambda node: (node.name,),
    Sort.FREE: lambda node: (-(usage_of(node).free or 0), node.name),
    Sort.FINDINGS: _worst_first,
    Sort.AGE: lambda node: (node.facts_age_s is not None, -(node.facts_age_s or 0), node.name),
}


def _row(node: Node) -> tuple[str, ...]:
    facts = node.facts
    return (
        node.name,
        state_cell(node),
        usage_cell(node),
        _memory_cell(facts),
        disk_cell(facts.filesystems if facts else None),
        fabrics_cell(node.ports),
        domain_cell(node),
        findings_cell(node.findings) or ("-" if facts is None else ""),
        "-" if node.facts_age_s is None else age(node.facts_age_s),
    )


def _memory_cell(facts: contract.NodeFacts | None) -> str:
    cell = memory_cell(facts.memory if facts else None)
    unified = facts is not None and any(gpu.unified_memory for gpu in facts.gpus or ())
    return f"{cell} unified" if unified and cell != "-" else cell


def fabrics_cell(ports: Sequence[FabricPort] | None) -> str:
    """`ib-a 8x400 confirmed` for each fabric; a contradiction is marked with `!`. `-` when unknown."""
    if ports is None:
        return "-"
    groups: dict[tuple[str, Verdict], list[FabricPort]] = {}
    for port in ports:
        if port.verdict is not Verdict.EXCLUDED:
            groups.setdefault((port.fabric or port.kind or "", port.verdict), []).append(port)
    return (
        ", ".join(_group(name, verdict, found) for (name, verdict), found in sorted(groups.items(), key=_by_text))
        or "none"
    )


def _by_text(entry: tuple[tuple[str, Verdict], list[FabricPort]]) -> tuple[str, str]:
    (name, verdict), _ = entry
    return (name, verdict.value)


def _group(name: str, verdict: Verdict, ports: Sequence[FabricPort]) -> str:
    rates = Counter(port.rate_gbps for port in ports)
    size = "+".join(
        f"{count}x{'-' if rate is None else f'{rate:g}'}"
        for rate, count in sorted(rates.items(), key=lambda entry: entry[0] or 0.0, reverse=True)
    )
    return f"{'! ' if verdict is Verdict.CONTRADICTED else ''}{name} {size} {verdict.value}"


def domain_cell(node: Node) -> str:
    """`72abb1a8.2 4/4 joined`, with `!` when it cannot take part; `none`, or `-` when that is not known."""
    if node.domain is not None:
        mark = "" if node.domain.ready else "! "
        return f"{mark}{node.domain.domain} {node.domain.joined}/{node.domain.cards} joined"
    cards = node.facts.gpus if node.facts else None
    keys = {key_of(gpu.fabric) for gpu in cards or ()} - {None}
    if len(keys) > 1:
        return "! broken"
    known = cards is not None and all(gpu.fabric is not None and gpu.fabric.state is not None for gpu in cards)
    return "none" if known and not keys else "-"


def _classes(fleet: FleetSnapshot) -> Iterator[str]:
    rows = [
        (name, or_dash(one.total), or_dash(one.free), or_dash(one.held), or_dash(one.out))
        for name, one in by_class(fleet.nodes).items()
    ]
    if rows:
        yield from lines_of([("CLASS", "TOTAL", "FREE", "HELD", "OUT"), *rows])


def _fabrics(fabrics: Sequence[Fabric]) -> Iterator[str]:
    for fabric in fabrics:
        ports = [port for member in fabric.members for port in member.ports]
        counts = Counter(port.verdict for port in ports)
        words = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
        rails = ", independent rails" if fabric.rails == "independent" else ""
        size = f"{plural(len(ports), 'port')} on {plural(len(fabric.members), 'node')}"
        yield f"fabric {fabric.name} ({fabric.kind}{rails}): {size}: {words}"
        wrong = [f"{port.node} {port.name}" for port in ports if port.verdict is Verdict.CONTRADICTED]
        if wrong:
            more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
            yield f"{_INDENT}! contradicted: {', '.join(wrong[:_NAMED])}{more}"
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
