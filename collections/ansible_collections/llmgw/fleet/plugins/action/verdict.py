# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of llmgw.fleet.verdict: judges one step over all its hosts, after all steps before it."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.llmgw.fleet.plugins.plugin_utils.controller import controller, plain


class ActionModule(ActionBase):
    """Collects what the hosts of a step answered, and adds it to what is known of the steps before."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return `failure` (sentences), `failed_services`, `wave`, `overtaken`, `taken`, and `lines` (one a unit)."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        _spec, arguments = self.validate_argument_spec(
            argument_spec={
                "step": {"type": "dict", "required": True},
                "register": {"type": "str", "required": True},
                "before": {"type": "dict", "default": {}},
                "undo": {"type": "bool", "default": False},
            }
        )
        with controller(result, "verdict") as llmgw:
            if llmgw is None:
                return result
            step, before = plain(arguments["step"]), plain(arguments["before"])
            if self._task.check_mode:
                step["trials"] = []  # nothing was published that anybody could ask
            hostvars = variables["hostvars"]
            in_play = set(variables["ansible_play_hosts_all"])
            answers = {
                host: plain(hostvars[host].get(arguments["register"], {})) for host in step["hosts"] if host in in_play
            }
            follow = llmgw.put_back if arguments["undo"] else llmgw.follow
            result.update(follow(before, step, answers))
        result["changed"] = False
        return result
