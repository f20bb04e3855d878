# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Controller side of llmgw.fleet.plan: asks llmgw for the plan and returns the steps that the playbook loops over."""

from __future__ import annotations

import secrets
import time
from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase

from ansible_collections.llmgw.fleet.plugins.plugin_utils.controller import controller, plain


class ActionModule(ActionBase):
    """Computes the plan of the run's hosts from catalog and stored facts."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what llmgw.apply.actions makes of a plan: steps, who they concern, text. With `settle`: `steps`, and
        `lines` about them.

        The bulk of the steps lies in Ansible's own folder of this run, which goes away with it.
        """
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        _spec, arguments = self.validate_argument_spec(
            argument_spec={
                "catalog": {"type": "path", "required": True},
                "facts": {"type": "path", "required": True},
                "lost": {"type": "list", "elements": "str", "default": []},
                "allow_mass_loss": {"type": "bool", "default": False},
                "settle": {"type": "bool", "default": False},
                "in_play": {"type": "list", "elements": "str"},
                "saved": {"type": "path"},
                "generation": {"type": "int"},
                "taken": {"type": "dict", "default": {}},
                "answered": {"type": "list", "elements": "str", "default": []},
            }
        )
        if set(variables["ansible_play_hosts"]) - set(variables["ansible_play_batch"]):
            result["failed"] = True
            result["msg"] = (
                "This play takes its hosts in batches (serial), and steps of a plan concern hosts of several of them: "
                "take serial out of the play. How many replicas may be away at a time is for rollout in the catalog to "
                "say. Nothing was touched."
            )
            return result
        with controller(result, "actions") as llmgw:
            if llmgw is None:
                return result
            groups = {name: list(variables["groups"].get(name, [])) for name in ("fleet", "gateway")}
            wanted = sorted({*groups["fleet"], *groups["gateway"]})
            hostvars = variables["hostvars"]
            settings = {
                host: plain(
                    {name: _value(hostvars[host], host, name) for name in llmgw.VARIABLES if name in hostvars[host]}
                )
                # Of what nothing reads only the names are told: a value may be a secret, or a template that fails.
                | dict.fromkeys(llmgw.unread(map(str, hostvars[host])))
                for host in wanted
            }
            request = llmgw.Request(
                catalog=llmgw.Path(arguments["catalog"]),
                facts=llmgw.Path(arguments["facts"]),
                hosts=llmgw.hosts_of(groups, settings),
                now=time.time(),
                in_play=frozenset(map(str, arguments["in_play"] or variables["ansible_play_hosts_all"])),
                lost=tuple(map(str, arguments["lost"])),
                allow_mass_loss=arguments["allow_mass_loss"],
                saved=llmgw.Path(arguments["saved"]) if arguments["saved"] else None,
                generation=arguments["generation"],
                taken=plain(arguments["taken"]),
                answered=frozenset(map(str, arguments["answered"])),
            )
            folder = llmgw.Path(constants.DEFAULT_LOCAL_TMP) / f"llmgw-{secrets.token_hex(8)}"
            made = llmgw.settle(request, folder) if arguments["settle"] else llmgw.make_plan(request, folder)
            result.update(made)
            forks = int(variables.get("ansible_forks") or 0)
            if forks and made.get("at_once", 0) > forks:
                result["failed"] = True
                result["msg"] = (
                    f"Members of replicas on {made['at_once']} hosts wait for one another, and Ansible works on "
                    f"{forks} at a time: set forks in ansible.cfg to at least {made['at_once']} (or --forks). "
                    "Nothing was touched."
                )
        result["changed"] = False
        return result


def _value(variables: Any, host: str, name: str) -> Any:
    """A variable of a host, resolved. Raises AnsibleActionFail with both names: one host's stops them all."""
    try:
        return variables[name]
    except AnsibleError as error:
        message = f"{name} of {host} cannot be resolved ({error}). Mend it where it is set. Nothing was touched."
        raise AnsibleActionFail(message) from error
