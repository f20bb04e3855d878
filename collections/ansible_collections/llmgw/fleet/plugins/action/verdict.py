# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of llmgw.fleet.verdict: judges one step over all its hosts."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.llmgw.fleet.plugins.plugin_utils.controller import controller, plain


class ActionModule(ActionBase):
    """Collects what the hosts of a step answered."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return `failed_hosts` (host name to reason), `failure` (sentences), `lines` (one a unit), `overtaken`."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        _spec, arguments = self.validate_argument_spec(
            argument_spec={"step": {"type": "dict", "required": True}, "register": {"type": "str", "required": True}}
        )
        with controller(result, "verdict") as llmgw:
            if llmgw is None:
                return result
            step = plain(arguments["step"])
            hostvars = variables["hostvars"]
            in_play = set(variables["ansible_play_hosts_all"])
            answers = {
                host: plain(hostvars[host].get(arguments["register"], {})) for host in step["hosts"] if host in in_play
            }
            result.update(llmgw.judge(step, answers))
        result["changed"] = False
        return result
