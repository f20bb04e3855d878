# SPDX-License-Identifier: Apache-2.0
"""One node in full, as text. What is unknown is shown as `-` (V1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
from llmgw.cli.table import wrapped
from llmgw.fleet.aging import age_of
from llmgw.model.node import Node, NodeState
from llmgw.nodekit import contract

__all__ = ["devices_cell", "disk_cell", "memory_cell", "node_lines", "state_cell"]

WIDTH = 100
_LABEL = 12
"""Where the text of a line begins, and so how far its continuations are indented."""
_EVIDENCE = 3
"""How much of a finding's evidence is shown."""
_OLDER_S = 60.0
"""A part that was read so much earlier than the rest has its own age."""


def state_cell(node: Node) -> str:
    """`ok`, `ok,cordoned`, `unreachable,drained`."""
    marks = [word for word, on in (("cordoned", node.cordoned), ("drained", node.drained)) if on]
    return ",".join([node.state.value, *marks])


def node_lines(
    name: str, facts: contract.NodeFacts | None, seen: Node | None = None, now: float | None = None
) -> list[str]:
    """Everything a scheduler would ask of one node, in lines of about 100 characters.

    `seen` adds what only the fleet as a whole tells: its state, the verdicts on its ports, its place in an NVLink
    domain; `now` (Unix seconds) the age of what was read.
    """
    lines = [name]
    for label, text in _entries(facts, seen, now):
        lines += wrapped(f"  {label:<{_LABEL - 3}} {text}", WIDTH, " " * _LABEL) if label else [text]
    return lines


def _entries(facts: contract.NodeFacts | None, seen: Node | None, now: float | None) -> Iterator[tuple[str, str]]:
    """Label and text of each entry; lines that are laid out already have no label."""
    if seen is not None:
        yield from _place(seen)
    if facts is None:
        yield "facts", "none stored"
    else:
        if now is not None:
            yield from _times(facts, now)
        for section in _SECTIONS:
            yield from section(facts)
        yield "devices", devices_cell(facts) if seen is None else usage_cell(seen)
        for line in card_lines(facts, seen.devices if seen else None):
            yield "", line
        yield from domain_lines(facts, seen)
        yield from port_lines(facts, seen)
        for section in _CONTENTS:
            yield from section(facts)
    yield from _findings(seen.findings if seen else facts.findings if facts else ())


def _place(node: Node) -> Iterator[tuple[str, str]]:
    yield "state", state_cell(node).replace(",", ", ") + _meaning(node.state)
    labels = ", ".join(f"{key}={value}" for key, value in sorted(node.labels.items()))
    yield "address", f"{node.address}{f', labels {labels}' if labels else ''}"


def _meaning(state: NodeState) -> str:
    return {
        NodeState.UNREACHABLE: ": it does not answer; what runs there is left alone",
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
    if driver is not None and (driver.driver_version or driver.source):
        by = f", read by {driver.source}" if driver.source else ""
        why = f" because NVML was not to be had: {driver.fallback_reason}" if driver.fallback_reason else ""
        yield "driver", f"{or_dash(driver.driver_version)}, CUDA {or_dash(driver.cuda_version)}{by}{why}"


def _disks(facts: contract.NodeFacts) -> Iterator[tuple[str, str]]:
    for one in facts.filesystems or ():
        kind = {True: "shared", False: "local", None: "shared or local unknown"}[one.shared]
        notes = [word for word, on in (("read-only", one.read_only), ("does not answer", one.answers is False)) if on]
        how = "".join(f", {word}" for word in (one.transport, *notes) if word)
        source = f" from {one.source}" if one.shared and one.source else ""
        yield "disk", f"{one.mount_point} ({or_dash(one.type)}, {kind}{how}): {disk_of(one)} free{source}"


def _engines(facts: contract.NodeFacts) -> Iterator[tuple[str, str]]:
    for engine in facts.engines or ():
        state = {True: "runs", False: f"does not run: {engine.reason}", None: "not tried"}[engine.runnable]
        yield "engine", f"{engine.kind} {or_dash(engine.version)} at {' '.join(engine.command)}: {state}"


def _weights(facts: contract.NodeFacts) -> Iterator[tuple[str, str]]:
    for one in facts.weights or ():
        whole = {True: "complete", False: "incomplete", None: "completeness unknown"}[one.complete]
        size = "-" if one.size_bytes is None else f"{one.size_bytes / GB:.2f} GB"
        revision = f", revision {one.revision[:12]}" if one.revision else ""
        more = (one.missing_count or len(one.missing)) - len(one.missing)
        lacks = f"; it lacks {', '.join(one.missing)}{f' and {more} more' if more > 0 else ''}" if one.missing else ""
        yield "weights", f"{one.model}: {size}, {whole}, {one.path}{revision}{lacks}"


def _units(facts: contract.NodeFacts) -> Iterator[tuple[str, str]]:
    for unit in facts.units or ():
        restarts = f", {plural(unit.restarts, 'restart')}" if unit.restarts else ""
        state = f"{or_dash(unit.active_state)}/{or_dash(unit.sub_state)}"
        yield "unit", f"{unit.name}: {state}, port {or_dash(unit.port)}{restarts}"
    for engine in facts.foreign_engines or ():
        yield "foreign", f"{engine.name} (process {engine.pid}) is in no unit of llmgw"


def _unread(facts: contract.NodeFacts) -> Iterator[tuple[str, str]]:
    for one in facts.probes:
        if not one.ok:
            yield "not read", f"{one.name}: {one.detail or 'no reason given'}"


def _findings(findings: tuple[contract.Finding, ...]) -> Iterator[tuple[str, str]]:
    for one in sorted(findings, key=lambda finding: rank(finding.severity)):
        remedy = f" -> {one.remedy}" if one.remedy else ""
        yield one.severity, f"{one.code}: {one.message}{remedy}"
        for sentence in one.evidence[:_EVIDENCE]:
            yield " ", f"- {sentence}"


_Section = Callable[[contract.NodeFacts], Iterator[tuple[str, str]]]
_SECTIONS: tuple[_Section, ...] = (_machine, _driver)
_CONTENTS: tuple[_Section, ...] = (_disks, _engines, _weights, _units, _unread)
