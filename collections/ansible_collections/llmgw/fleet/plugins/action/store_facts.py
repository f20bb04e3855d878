# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of llmgw.fleet.store_facts: keeps what every host's discovery answered."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.llmgw.fleet.plugins.plugin_utils.controller import controller, plain


class ActionModule(ActionBase):
    """Stores facts in the directory of the facts cache."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return `stored` (host names) and `missing` (host name to reason)."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        _spec, arguments = self.validate_argument_spec(
            argument_spec={
                "directory": {"type": "path", "required": True},
                "register": {"type": "str", "required": True},
            }
        )
        with controller(result, "actions") as llmgw:
            if llmgw is None:
                return result
            hostvars = variables["hostvars"]
            answers = {
                host: plain(hostvars[host].get(arguments["register"], {}))
                for host in variables["ansible_play_hosts_all"]
            }
            result.update(llmgw.keep_facts(llmgw.Path(arguments["directory"]), answers, time.time()))
        result["changed"] = False
        return result
