# SPDX-License-Identifier: BSD-2-Clause
"""What must happen to one unit: the single rule by which the planner predicts and the module acts (R5).

Private to llmgw. `plan` on the controller and `replica_units` on the node both call `change`; that is why a plan is
empty exactly when check mode reports no change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.contract import ObservedUnit

CREATED = "created"
RESTARTED = "restarted"
REWRITTEN = "rewritten"
STARTED = "started"
KEPT = "kept"
REMOVED = "removed"

_RUNNING = ("active", "reloading", "activating")


def change(observed: ObservedUnit | None, process_digest: str, text_digest: str) -> str:
    """One of the words above (REMOVED apart) for a unit that is wanted with these digests.

    A running process is judged by the digest it was started with; where its environment cannot be read, by an unedited
    file's header. A unit that only waits for its next automatic restart does not run. A file that systemd has not read
    again, or that is not enabled, is written once more: that is what an interrupted run leaves behind. A process whose
    file was deleted gets it back and goes on.
    """
    if observed is None or (observed.actual_text_digest is None and not is_running(observed)):
        return CREATED
    same_text = observed.actual_text_digest == text_digest and not observed.edited
    if not is_running(observed):
        return STARTED if same_text else RESTARTED
    started_with = observed.running_digest
    if started_with is None and same_text:
        started_with = observed.process_digest
    if started_with != process_digest:
        return RESTARTED
    settled = same_text and not observed.needs_reload and observed.enabled is not False
    return KEPT if settled else REWRITTEN


def is_running(observed: ObservedUnit) -> bool:
    """Whether the unit's process runs or is being started now."""
    return observed.active_state in _RUNNING and observed.sub_state != "auto-restart"
