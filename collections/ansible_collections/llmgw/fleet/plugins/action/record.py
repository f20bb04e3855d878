# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of llmgw.fleet.record: keeps the history of applies."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.llmgw.fleet.plugins.plugin_utils.controller import controller, plain


class ActionModule(ActionBase):
    """Writes one apply's file in the history: at its begin and at its end."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return `recorded`, and `problems` when the history cannot be kept; that never fails an apply."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _spec, arguments = self.validate_argument_spec(
            argument_spec={
                "directory": {"type": "path", "required": True},
                "id": {"type": "str", "required": True},
                "phase": {"type": "str", "required": True, "choices": ["begin", "end"]},
                "record": {"type": "dict", "default": {}},
                "command": {"type": "str", "default": "playbook"},
                "outcome": {"type": "str", "choices": ["done", "failed", "overtaken"]},
                "failure": {"type": "list", "elements": "str", "default": []},
            },
            required_if=[("phase", "begin", ["record"]), ("phase", "end", ["outcome"])],
        )
        result.update(changed=False, recorded=False, problems=[])
        if self._task.check_mode:
            return result
        with controller(result, "history") as llmgw:
            if llmgw is None:
                return result
            directory, run, now = llmgw.Path(arguments["directory"]), arguments["id"], time.time()
            if arguments["phase"] == "begin":
                warnings = llmgw.begin(directory, run, plain(arguments["record"]), arguments["command"], now)
            else:
                warnings = llmgw.end(directory, run, arguments["outcome"], plain(arguments["failure"]), now)
            result.update(recorded=not warnings, problems=warnings)
            if warnings:
                result["warnings"] = warnings
        return result
