# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of llmgw.fleet.store_facts: keeps what every host's discovery answered."""

from __future__ import annotations

import time

from ansible.plugins.action import ActionBase
from ansible_collections.llmgw.fleet.plugins.plugin_utils.controller import controller, plain


class ActionModule(ActionBase):
    """Stores facts in the directory of the facts cache."""

    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        """Return `stored` (host names) and `missing` (host name to reason)."""
        result = super().run(tmp, task_vars)
        _spec, arguments = self.validate_argument_spec(
            argument_spec={"directory": {"type": "path", "required": True}, "register": {"type": "str", "required": True}}
        )
        with controller(result) as llmgw:
            if llmgw is None:
                return result
            variables = task_vars["hostvars"]
            answers = {
                host: plain(variables[host].get(arguments["register"], {})) for host in task_vars["ansible_play_hosts_all"]
            }
            result.update(llmgw.keep_facts(llmgw.Path(arguments["directory"]), answers, time.time()))
        result["changed"] = False
        return result
