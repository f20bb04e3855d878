# SPDX-License-Identifier: BSD-2-Clause
"""Which earlier version of a unit to bring back when a new one does not become ready (R4).

Private to llmgw. What ran a moment ago is proved by its process; else the text that was last ready is taken; a file
that merely lay there comes last, for it may be what an interrupted run never saw ready. A process that went on through
this run may have been started by an interrupted one: the last good version replaces that too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Mapping

from ansible_collections.llmgw.fleet.plugins.module_utils import companions, unitchange, unitfile

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import Step
    from ansible_collections.llmgw.fleet.plugins.module_utils.readiness import Readiness
    from ansible_collections.llmgw.fleet.plugins.module_utils.state_files import Record, StateFiles


@dataclass(frozen=True)
class Previous:
    """An earlier version: its text, the files beside it, and how to tell that it is ready."""

    text: str
    process_digest: str
    readiness: Readiness
    stop_timeout_s: float
    environment_files: Mapping[str, str] = field(default_factory=dict)


def previous_of(step: Step, state: StateFiles) -> Previous | None:
    """The version to bring back for a unit that failed; None when there is none, or only the failed one."""
    if step.wanted is None:
        return None
    on_disk = (step.observed.text if step.observed else None, True)
    last_good = (state.last_good(step.name), False)
    went_on = step.action in {unitchange.KEPT, unitchange.REWRITTEN}
    for text, from_disk in [on_disk, last_good] if _ran_as_written(step) else [last_good, on_disk]:
        header = unitfile.parse(text or "")
        if text is None or text == step.wanted.text or header.process_digest is None:
            continue
        if went_on and header.process_digest == step.wanted.process_digest:
            continue  # the process that fails is already this one
        return Previous(
            text,
            header.process_digest,
            _readiness(header, state.record(step.name), step.wanted.readiness),
            step.wanted.stop_timeout_s,
            _files(step, text, state, from_disk=from_disk),
        )
    return None


def _ran_as_written(step: Step) -> bool:
    """Whether the process that was there had been started from the file that was there."""
    unit = step.observed
    return (
        unit is not None
        and unitchange.is_running(unit)
        and unit.running_digest is not None
        and unit.running_digest == unit.process_digest
    )


def _readiness(header: unitfile.Header, record: Record, wanted: Readiness) -> Readiness:
    """How the earlier version is asked: where its header says, as it was last found ready, with today's deadlines.

    A member's header does not say where its leader is: that is where it was when the member was last ready, else where
    it is now. And a member waits for the others, which are put back once their own deadlines have passed: it gets that
    time too.
    """
    known = record.process_digest == header.process_digest
    led = wanted.kind == "leader"
    patience = 2 if (header.members or 1) > 1 else 1
    return replace(
        wanted,
        kind="leader" if led else "http" if wanted.kind == "http" and header.port is not None else "unit",
        address=((record.leader_address if known else None) or wanted.address) if led else header.address,
        port=((record.leader_port if known else None) or wanted.port) if led else header.port,
        start_timeout_s=wanted.start_timeout_s * patience,
        ready_timeout_s=wanted.ready_timeout_s * patience,
        health_path=(record.health_path if known else None) or wanted.health_path,
        models_path=(record.models_path if known else None) or wanted.models_path,
        expect_model=record.expect_model if known else None,
    )


def _files(step: Step, text: str, state: StateFiles, *, from_disk: bool) -> dict[str, str]:
    """Content of the files beside the earlier version, as they were with it."""
    before = {one.path: one.before for one in step.files}
    found = {}
    for path in companions.named_in(step.name, text):
        content = before.get(path) if from_disk else state.last_good(Path(path).name)
        if content is not None:
            found[path] = content
    return found
