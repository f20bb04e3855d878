# SPDX-License-Identifier: BSD-2-Clause
"""What must change on one host, as data: refused, computed and shown before anything is touched (R9, R3).

Private to llmgw. Pure: check mode shows exactly what a real run then does, because both come from `compute`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils import companions, unitchange, unitfile
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import ObservedUnit
from ansible_collections.llmgw.fleet.plugins.module_utils.readiness import Readiness


@dataclass(frozen=True)
class WantedUnit:
    """One unit as the plan wants it. `environment_files`: path to content of the files beside it."""

    name: str
    text: str
    process_digest: str
    text_digest: str
    readiness: Readiness
    stop_timeout_s: float = 90
    environment_files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FileChange:
    """One file before and after; None: there is none."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Step:
    """What happens to one unit. `wanted` is None when it goes, `observed` when nothing of it is there."""

    name: str
    action: str
    wanted: WantedUnit | None
    observed: ObservedUnit | None
    files: tuple[FileChange, ...] = ()


@dataclass(frozen=True)
class HostChange:
    """Every unit the plan names on this host, sorted by name."""

    steps: tuple[Step, ...]

    @property
    def changed(self) -> bool:
        """Whether anything is to be done."""
        return any(step.action != unitchange.KEPT for step in self.steps)

    @property
    def diff(self) -> list[dict[str, str]]:
        """Ansible's diff: the whole text before and after of each file that changes."""
        return [
            {
                "before_header": one.path,
                "after_header": one.path,
                "before": one.before or "",
                "after": one.after or "",
            }
            for step in self.steps
            for one in step.files
        ]


def refusals(units: Sequence[ObservedUnit], change: HostChange, expected: Mapping[str, str] | None) -> tuple[str, ...]:
    """Why a change must not be carried out here, a sentence each (R9); none when it may.

    `expected`: text digests of the units the plan was made against. A unit that is already as wanted never speaks
    against the plan: an interrupted run of the same plan left it so.
    """
    found = []
    if expected is not None:
        present = {unit.name: unit.actual_text_digest for unit in units if unit.actual_text_digest is not None}
        goal = {step.name: step.wanted.text_digest if step.wanted else None for step in change.steps}
        for name in sorted({*present, *expected}):
            now = present.get(name)
            if now != expected.get(name) and not (name in goal and now == goal[name]):
                found.append(f"{name} {_deviation(name in present, name in expected)}")
    return tuple(found)


def compute(
    units: Sequence[ObservedUnit],
    wanted: Sequence[WantedUnit],
    absent: Sequence[str],
    unit_dir: str,
    *,
    contents: Mapping[str, str | None],
    drop_ins: Mapping[str, Sequence[str]],
) -> HostChange:
    """The change from what was observed to what the plan wants.

    `contents`: what the files beside the units and the drop-ins hold now, by path. Drop-ins are edits: they go.
    """
    by_name = {unit.name: unit for unit in units}
    steps = [_place(by_name.get(unit.name), unit, unit_dir, contents, drop_ins.get(unit.name, ())) for unit in wanted]
    steps += [_take_away(by_name.get(name), name, unit_dir, contents, drop_ins.get(name, ())) for name in absent]
    return HostChange(tuple(sorted(steps, key=lambda step: step.name)))


def companion_paths(
    units: Sequence[ObservedUnit], wanted: Sequence[WantedUnit], drop_ins: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Every path whose content `compute` needs."""
    paths = {path for unit in wanted for path in unit.environment_files}
    paths.update(path for unit in units for path in companions.named_in(unit.name, unit.text))
    paths.update(path for found in drop_ins.values() for path in found)
    return tuple(sorted(paths))


def _place(
    observed: ObservedUnit | None,
    wanted: WantedUnit,
    unit_dir: str,
    contents: Mapping[str, str | None],
    drop_ins: Sequence[str],
) -> Step:
    action = unitchange.change(observed, wanted.process_digest, wanted.text_digest)
    files = [FileChange(f"{unit_dir}/{wanted.name}", observed.text if observed else None, wanted.text)]
    files += [FileChange(path, contents.get(path), text) for path, text in sorted(wanted.environment_files.items())]
    files += [FileChange(path, contents.get(path), None) for path in drop_ins]
    differing = tuple(one for one in files if one.before != one.after)
    if differing and action == unitchange.KEPT:
        action = unitchange.REWRITTEN
    return Step(wanted.name, action, wanted, observed, differing)


def _take_away(
    observed: ObservedUnit | None,
    name: str,
    unit_dir: str,
    contents: Mapping[str, str | None],
    drop_ins: Sequence[str],
) -> Step:
    if observed is None:
        return Step(name, unitchange.KEPT, None, None)
    beside = (*companions.named_in(name, observed.text), *drop_ins)
    files = [FileChange(path, contents.get(path), None) for path in beside]
    files.append(FileChange(f"{unit_dir}/{name}", observed.text, None))
    there = tuple(one for one in files if one.before is not None)
    return Step(name, unitchange.REMOVED, None, observed, there)


def _deviation(present: bool, known: bool) -> str:
    if not known:
        return "was not there when the plan was made"
    return "is not as it was when the plan was made" if present else "is gone since the plan was made"


def text_objections(wanted: Sequence[WantedUnit]) -> tuple[str, ...]:
    """Units whose text and digests do not belong together: it was altered on its way, or planned by another version."""
    found = []
    for unit in wanted:
        header = unitfile.parse(unit.text)
        if unitfile.text_digest(unit.text) != unit.text_digest or header.text_digest != unit.text_digest:
            found.append(f"{unit.name}: its text is not the one its text digest was made from")
        elif header.process_digest != unit.process_digest:
            found.append(f"{unit.name}: its text names another process digest than the plan")
    return tuple(found)
