# SPDX-License-Identifier: Apache-2.0
"""Amounts as tables and pages write them. What is unknown is `-`, never 0 (V1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from llmgw.cli.table import whole
from llmgw.fleet.devices import devices_of
from llmgw.fleet.unplaced import unplaced
from llmgw.fleet.usage import Usage, by_class
from llmgw.model.node import Node
from llmgw.nodekit import contract

GB = 10**9
_IN_TB = 10_000 * GB
SEVERITIES = ("block", "warn", "info")


def or_dash(value: object) -> str:
    """The value, or `-` for None."""
    return "-" if value is None else str(value)


def devices_cell(facts: contract.NodeFacts | None) -> str:
    """`8 x h200-141g`, `none`, or `-` when unknown; MIG instances count as their class."""
    devices = devices_of(facts) if facts else None
    if devices is None:
        return "-"
    counts = Counter(device.device_class for device in devices)
    return ", ".join(f"{count} x {name}" for name, count in sorted(counts.items())) or "none"


def usage_cell(node: Node) -> str:
    """`8 x h200-141g (2 free, 1 out)` by class, `(- free)` where units are unknown; last the cards without a class."""
    if node.devices is None:
        return "-"
    words = [f"{whole(f'{one.total} x {name}')} {whole(_free(one))}" for name, one in by_class([node]).items()]
    others = unplaced(node.facts) if node.facts else None
    if others:
        words.append(whole(f"{plural(len(others), 'card')} out"))
    return ", ".join(words) or "none"


def _free(usage: Usage) -> str:
    return f"({at_least(usage.free, usage.maybe_free)} free{f', {usage.out} out' if usage.out else ''})"


def at_least(count: int, maybe: int) -> str:
    """`5`; `5+` when it may be more, and `-` when nothing is known."""
    return str(count) if not maybe else f"{count}+" if count else "-"


def some(names: Sequence[str], most: int) -> str:
    """`n1, n2 and 3 more`, with at most so many named."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def memory_cell(memory: contract.Memory | None) -> str:
    """`12/16 GB`: available of total, rounded; `-` when unknown."""
    return "-" if memory is None else of_total(memory.available_bytes, memory.total_bytes)


def disk_cell(filesystems: Sequence[contract.Filesystem] | None) -> str:
    """Free of total over the node's own filesystems, shared ones left out (D11)."""
    own = [
        one
        for one in filesystems or ()
        if one.shared is not True and one.total_bytes is not None and one.free_bytes is not None
    ]
    return of_total(sum(one.free_bytes or 0 for one in own), sum(one.total_bytes or 0 for one in own)) if own else "-"


def disk_of(filesystem: contract.Filesystem) -> str:
    """`12/80 GB`, `-/80 GB`, or `-` when unknown."""
    return of_total(filesystem.free_bytes, filesystem.total_bytes)


def of_total(free: int | None, total: int | None) -> str:
    """`12/80 GB`, in terabytes from ten thousand gigabytes on; `-` when the total is unknown."""
    if total is None:
        return "-"
    size, unit, digits = (1000 * GB, "TB", 1) if total > _IN_TB else (GB, "GB", 0)
    return f"{'-' if free is None else f'{free / size:.{digits}f}'}/{total / size:.{digits}f} {unit}"


def age(seconds: float) -> str:
    """`30s`, `10m`, `2h`, `2d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def findings_cell(findings: Iterable[contract.Finding]) -> str:
    """`1 block, 2 warn`; empty when there are none."""
    counts = Counter(finding.severity for finding in findings)
    return ", ".join(f"{counts[severity]} {severity}" for severity in sorted(counts, key=rank))


def rank(severity: str) -> tuple[int, str]:
    """Sort key that puts the worst first."""
    return (SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES), severity)


def runs(numbers: Iterable[int]) -> str:
    """`0-3, 5`, from those numbers."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in found)


def plural(count: int, word: str) -> str:
    """`1 port`, `2 ports`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
