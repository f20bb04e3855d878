# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of llmgw.fleet.known_hardware: tells for which hardware the facts cache holds facts."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.llmgw.fleet.plugins.plugin_utils.controller import controller


class ActionModule(ActionBase):
    """Reads the facts cache; touches no host."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return `known` (host name to the hardware key of its stored facts; hosts without one are left out)."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _spec, arguments = self.validate_argument_spec(argument_spec={"directory": {"type": "path", "required": True}})
        with controller(result, "actions") as llmgw:
            if llmgw is None:
                return result
            hosts = (task_vars or {})["ansible_play_hosts_all"]
            result["known"] = llmgw.known_hardware(llmgw.Path(arguments["directory"]), map(str, hosts))
        result["changed"] = False
        return result
