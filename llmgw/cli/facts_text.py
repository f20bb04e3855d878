# SPDX-License-Identifier: Apache-2.0
"""One node in full, as text. What is unknown is shown as `-` (V1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from llmgw.cli.cells import (
    GB,
    age,
    devices_cell,
    disk_cell,
    disk_of,
    memory_cell,
    or_dash,
    plural,
    rank,
    usage_cell,
)
from llmgw.cli.facts_cards import card_lines
from llmgw.cli.facts_fabric import domain_lines, port_lines
from llmgw.cli.facts_marks import mark_lines
from llmgw.cli.facts_units import unit_line
from llmgw.cli.table import wrapped
from llmgw.fleet.aging import age_of
from llmgw.model.fabric import NvlinkDomain
from llmgw.model.node import Node, NodeState
from llmgw.nodekit import contract

__all__ = ["devices_cell", "disk_cell", "memory_cell", "node_lines", "state_cell"]

WIDTH = 100
_LABEL = 12
"""Where the text of a line begins, and so how far its continuations are indented."""
_EVIDENCE = 3
"""How much of a finding's evidence is shown."""
_LEAST = "info"
"""Findings of this severity come last: nobody has to do anything about them."""
_OLDER_S = 60.0
"""A part that was read so much earlier than the rest has its own age."""


def state_cell(node: Node, now: float | None = None) -> str:
    """`ok`, `ok,stale`, `ok,cordoned`, `unreachable 12m,drained`: with `now` (Unix seconds) since when."""
    stale = node.stale and node.state is NodeState.OK
    flags = (("stale", stale), ("cordoned", node.cordoned), ("drained", node.drained))
    away = _away(node, now)
    return ",".join([f"{node.state.value}{f' {age(away)}' if away is not None else ''}", *(w for w, on in flags if on)])


def _away(node: Node, now: float | None) -> float | None:
    """Seconds since a node that does not answer was first tried in vain."""
    if node.state is not NodeState.UNREACHABLE or node.unreachable_since is None or now is None:
        return None
    return max(0.0, now - node.unreachable_since)


def node_lines(
    name: str,
    facts: contract.NodeFacts | None,
    seen: Node | None = None,
    now: float | None = None,
    domains: Sequence[NvlinkDomain] = (),
) -> list[str]:
    """Everything a scheduler would ask of one node, in lines of about 100 characters.

    `seen` adds what only the fleet as a whole tells: its state, the verdicts on its ports, its place in an NVLink
    domain; `now` (Unix seconds) the age of what was read; `domains` the other nodes of its domain.
    """
    lines = [name]
    for label, text in _entries(facts, seen, now, domains):
        lines += wrapped(f"  {label:<{_LABEL - 3}} {text}", WIDTH, " " * _LABEL) if label else [text]
    return lines


def _entries(
    facts: contract.NodeFacts | None, seen: Node | None, now: float | None, domains: Sequence[NvlinkDomain]
) -> Iterator[tuple[str, str]]:
    """Label and text of each entry; lines that are laid out already have no label.

    What is wrong with a node of the fleet comes right below its state.
    """
    findings = seen.findings if seen else facts.findings if facts else ()
    first = tuple(one for one in findings if one.severity != _LEAST) if seen else ()
    if seen is not None:
        yield from _state(seen, now)
        yield from mark_lines(facts, seen, now)
        yield from _findings(first)
        yield from _place(seen)
    if facts is None:
        broken = any(one.code == "facts-unreadable" for one in findings)
        yield "facts", "stored and unreadable; none are stored that are older" if broken else "none stored"
    else:
        if seen is None:
            yield from mark_lines(facts, None, now)
        if now is not None:
            yield from _times(facts, now)
        for section in _SECTIONS:
            yield from section(facts)
        yield "devices", devices_cell(facts) if seen is None else usage_cell(seen)
        for line in card_lines(facts, seen.devices if seen else None):
            yield "", line
        yield from domain_lines(facts, seen, domains)
        yield from port_lines(facts, seen)
        for section in _CONTENTS:
            yield from section(facts)
    yield from _findings(one for one in findings if one not in first)


def _state(node: Node, now: float | None) -> Iterator[tuple[str, str]]:
    away, last = _away(node, now), node.unreachable_last
    tried = f", last tried {age(max(0.0, now - last))} ago" if away is not None and now is not None and last else ""
    since = "" if away is None else f" for {age(away)}{tried}"
    words = [f"{node.state.value}{since}", *state_cell(node).split(",")[1:]]
    yield "state", ", ".join(words) + _meaning(node.state)


def _place(node: Node) -> Iterator[tuple[str, str]]:
    labels = ", ".join(f"{key}={value}" for key, value in sorted(node.labels.items()))
    yield "address", f"{node.address}{f', labels {labels}' if labels else ''}"


def _meaning(state: NodeState) -> str:
    return {
        NodeState.UNREACHABLE: ": it does not answer; what runs there is left alone, its other cards count as out",
        NodeState.UNSEEN: ": nothing is known of it; `llmgw facts refresh` looks",
        NodeState.LOST: ": its replicas are replaced elsewhere",
    }.get(state, "")


def _times(facts: contract.NodeFacts, now: float) -> Iterator[tuple[str, str]]:
    whole = None if facts.collected_at is None else max(0.0, now - facts.collected_at)
    older = [
        (one.name, old)
        for one in facts.probes
        if (old := age_of(facts, one.name, now)) is not None and old > (whole or 0.0) + _OLDER_S
    ]
    parts = "".join(f"; {name} {age(old)} ago" for name, old in sorted(older))
    yield "read", f"{'-' if whole is None else f'{age(whole)} ago'}{parts}"


def _machine(facts: contract.NodeFacts) -> Iterator[tuple[str, str]]:
    system, cpu = facts.system or contract.System(), facts.cpu or contract.Cpu()
    os_name = f"{or_dash(system.os)} {or_dash(system.os_version)}"
    yield "system", f"{os_name}, kernel {or_dash(system.kernel)}, systemd {or_dash(system.systemd_version)}"
    counts = ((cpu.sockets, "socket"), (cpu.cores, "core"), (cpu.threads, "thread"))
    told = ", ".join(f"- {word}s" if count is None else plural(count, word) for count, word in counts)
    yield "cpu", f"{or_dash(cpu.model)}: {told}"
    yield "memory", f"{memory_cell(facts.memory)} available"


def _driver(facts: contract.NodeFacts) -> Iterator[tuple[str, str]]:
    driver = facts.driver
    if driver is not None and (driver.driver_version or driver.source or driver.fallback_reason):
        by = f", read by {driver.source}" if driver.source else ""
        why = f"{' because' if by else ','} NVML was not to be had: {driver.fallback_reason}"
        why = why if driver.fallback_reason else ""
        yield "driver", f"{or_dash(driver.driver_version)}, CUDA {or_dash(driver.cuda_version)}{by}{why}"


def _none(label: str, found: Sequence[object] | None) -> Iterator[tuple[str, str]]:
    """A line for what has no lines of its own: `-` for unknown, `none` for known to be none."""
    if not found:
        yield label, "-" if found is None else "none"


def _disks(facts: contract.NodeFacts) -> Iterator[tuple[str, str]]:
    yield from _none("disk", facts.filesystems)
    for one in facts.filesystems or ():
        kind = {True: "shared", False: "local", None: "shared or local unknown"}[one.shared]
        notes = [word for word, on in (("read-only", one.read_only), ("does not answer", one.answers is False)) if on]
        how = "".join(f", {word}" for word in (one.transport, *notes) if word)
        source = f" from {one.source}" if one.shared and one.source else ""
        yield "disk", f"{one.mount_point} ({or_dash(one.type)}, {kind}{how}): {disk_of(one)} free{source}"


def _engines(facts: contract.NodeFacts) -> Iterator[tuple[str, str]]:
    yield from _none("engine", facts.engines)
    for engine in facts.engines or ():
        state = {True: "runs", False: f"does not run: {engine.reason}", None: "not tried"}[engine.runnable]
        yield "engine", f"{engine.kind} {or_dash(engine.version)} at {' '.join(engine.command)}: {state}"


def _weights(facts: contract.NodeFacts) -> Iterator[tuple[str, str]]:
    yield from _none("weights", facts.weights)
    for one in facts.weights or ():
        whole = {True: "complete", False: "incomplete", None: "completeness unknown"}[one.complete]
        size = "-" if one.size_bytes is None else f"{one.size_bytes / GB:.2f} GB"
        revision = f", revision {one.revision[:12]}" if one.revision else ""
        more = (one.missing_count or len(one.missing)) - len(one.missing)
        lacks = f"; it lacks {', '.join(one.missing)}{f' and {more} more' if more > 0 else ''}" if one.missing else ""
        yield "weights", f"{one.model}: {size}, {whole}, {one.path}{revision}{lacks}"


def _units(facts: contract.NodeFacts) -> Iterator[tuple[str, str]]:
    yield from _none("unit", facts.units)
    for unit in facts.units or ():
        yield "unit", unit_line(unit, facts.collected_at)
    for engine in facts.foreign_engines or ():
        yield "foreign", f"{engine.name} (process {engine.pid}) is in no unit of llmgw"


def _unread(facts: contract.NodeFacts) -> Iterator[tuple[str, str]]:
    told = {finding.part for finding in facts.findings if finding.code == "probe-failed"}
    for one in facts.probes:
        if not one.ok and one.name not in told:
            yield "not read", f"{one.name}: {one.detail or 'no reason given'}"


def _findings(findings: Iterable[contract.Finding]) -> Iterator[tuple[str, str]]:
    for one in sorted(findings, key=lambda finding: rank(finding.severity)):
        remedy = f" -> {one.remedy}" if one.remedy else ""
        yield one.severity, f"{one.code}: {one.message}{remedy}"
        for sentence in one.evidence[:_EVIDENCE]:
            yield " ", f"- {sentence}"


_Section = Callable[[contract.NodeFacts], Iterator[tuple[str, str]]]
_SECTIONS: tuple[_Section, ...] = (_machine, _driver)
_CONTENTS: tuple[_Section, ...] = (_disks, _engines, _weights, _units, _unread)
