# SPDX-License-Identifier: Apache-2.0
"""The fleet as text: a row for each node, and below it devices by class, fabrics, domains, shared storage (V1)."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from llmgw.cli import nodes_summary
from llmgw.cli.cells import age, disk_cell, findings_cell, memory_cell, or_dash, plural, usage_cell
from llmgw.cli.facts_fabric import without_domain
from llmgw.cli.facts_text import state_cell
from llmgw.cli.table import lines_of, wrapped
from llmgw.fleet.domains import key_of
from llmgw.fleet.hosts import NODE_GROUP
from llmgw.fleet.unknown_ports import is_unknown
from llmgw.fleet.usage import usage_of
from llmgw.model.fabric import FabricPort, Verdict
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.nodekit import contract

_HEAD = ("NODE", "STATE", "DEVICES", "MEM FREE", "DISK FREE", "FABRICS", "DOMAIN", "FINDINGS", "AGE")
_BREAKABLE = (1, 2, 3, 4, 5, 6, 7)
_INDENT = "  "
_UNKNOWN = "unknown"


class Sort(enum.StrEnum):
    """By what the rows are sorted."""

    NAME = "name"
    FREE = "free"
    FINDINGS = "findings"
    AGE = "age"


def fleet_lines(
    fleet: FleetSnapshot, sort: Sort = Sort.NAME, width: int | None = None, *, problems: bool = False
) -> list[str]:
    """The table and its summaries, no wider than `width` where that can be done; None: as wide as they are.

    `problems`: rows for those nodes alone that have any; the summaries are of the whole fleet.
    """
    if not fleet.nodes:
        return [f"there are no nodes: the inventory has no host in its group {NODE_GROUP}"]
    nodes = sorted((node for node in fleet.nodes if not problems or has_problems(node)), key=_SORTS[sort])
    lines = []
    if nodes:
        lines = [*lines_of([_HEAD, *(_row(node, fleet.taken_at) for node in nodes)], width, _BREAKABLE), ""]
    if problems:
        lines.append(f"{len(nodes)} of {plural(len(fleet.nodes), 'node')} with problems")
    for number, section in enumerate(nodes_summary.sections(fleet)):
        texts = [line for text in section for line in ([text] if width is None else wrapped(text, width, _INDENT * 2))]
        lines += ["", *texts] if texts and number else texts
    return lines


def has_problems(node: Node) -> bool:
    """Whether somebody should look at a node: it did not answer, what is known of it is old, or a finding says more
    than info.
    """
    return node.state is not NodeState.OK or node.stale or any(one.severity != "info" for one in node.findings)


def _worst_first(node: Node) -> tuple[Any, ...]:
    counts = Counter(finding.severity for finding in node.findings)
    return (-counts["block"], -counts["warn"], -counts["info"], node.name)


_SORTS: dict[Sort, Callable[[Node], tuple[Any, ...]]] = {
    Sort.NAME: lambda node: (node.name,),
    Sort.FREE: lambda node: (-(usage_of(node).free or 0), node.name),
    Sort.FINDINGS: _worst_first,
    Sort.AGE: lambda node: (node.facts_age_s is not None, -(oldest_age(node) or 0), node.name),
}


def _row(node: Node, now: float | None) -> tuple[str, ...]:
    facts = node.facts
    return (
        node.name,
        state_cell(node, now),
        usage_cell(node),
        _memory_cell(facts),
        disk_cell(facts.filesystems if facts else None),
        fabrics_cell(node.ports),
        domain_cell(node),
        findings_cell(node.findings) or ("-" if facts is None else ""),
        "-" if (old := oldest_age(node)) is None else age(old),
    )


def oldest_age(node: Node) -> float | None:
    """Seconds since the oldest of what changes was read: a refresh in part leaves the rest as old as it was."""
    return node.facts_age_s if node.oldest_age_s is None else max(node.oldest_age_s, node.facts_age_s or 0.0)


def _memory_cell(facts: contract.NodeFacts | None) -> str:
    cell = memory_cell(facts.memory if facts else None)
    unified = facts is not None and any(gpu.unified_memory for gpu in facts.gpus or ())
    return f"{cell} unified" if unified and cell != "-" else cell


def fabrics_cell(ports: Sequence[FabricPort] | None) -> str:
    """`ib-a 8x400 confirmed` for each fabric; a contradiction is marked with `!`. `-` when unknown, and
    `infiniband 8x400 unknown` for ports of which only that is unknown whether engines may use them.
    """
    if ports is None:
        return "-"
    groups: dict[tuple[str, str], list[FabricPort]] = {}
    for port in ports:
        if port.verdict is not Verdict.EXCLUDED or is_unknown(port):
            word = _UNKNOWN if port.verdict is Verdict.EXCLUDED else port.verdict.value
            groups.setdefault((port.fabric or or_dash(port.kind), word), []).append(port)
    return ", ".join(_group(name, word, found) for (name, word), found in sorted(groups.items())) or "none"


def _group(name: str, word: str, ports: Sequence[FabricPort]) -> str:
    rates = Counter(port.rate_gbps for port in ports)
    size = "+".join(
        f"{count}x{'-' if rate is None else f'{rate:g}'}"
        for rate, count in sorted(rates.items(), key=lambda entry: entry[0] or 0.0, reverse=True)
    )
    return f"{'! ' if word == Verdict.CONTRADICTED.value else ''}{name} {size} {word}"


def domain_cell(node: Node) -> str:
    """`72abb1a8.2 4/4 joined`, with `!` when it cannot take part; `none`, or `-` when that is not known."""
    if node.domain is not None:
        mark = "" if node.domain.ready else "! "
        return f"{mark}{node.domain.domain} {node.domain.joined}/{node.domain.cards} joined"
    keys = {key_of(gpu.fabric) for gpu in (node.facts.gpus if node.facts else None) or ()} - {None}
    if keys:
        return "! broken" if len(keys) > 1 else "-"
    return without_domain(node.facts, node.forgotten)
