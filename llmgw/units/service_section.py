# SPDX-License-Identifier: Apache-2.0
"""The [Service] section of a unit, put together from its parts."""

from __future__ import annotations

from llmgw.nodekit import unitfile
from llmgw.units import quoting
from llmgw.units.caches import cache_variables
from llmgw.units.command import exec_start
from llmgw.units.credentials import credentials
from llmgw.units.devices import before_cards
from llmgw.units.member_unit import MemberUnit
from llmgw.units.network_access import network_access
from llmgw.units.resources import resources
from llmgw.units.restarts import restarts
from llmgw.units.sandbox import sandbox

_TO_A_FILE = "StandardOutput=append:"


def service_section(unit: MemberUnit) -> list[str]:
    """The lines, heading first."""
    settings, env = unit.node.settings, unit.launch.env
    user = settings.engine_user if unit.system else None
    variables = {unitfile.DIGEST_VARIABLE: str(unit.process)}
    variables |= cache_variables(unit) if unit.system else {}
    variables |= {key: env[key] for key in sorted(env)}
    return [
        "[Service]",
        "Type=exec",
        *(before_cards(unit)[1] if unit.system else ()),
        f"ExecStart={exec_start(unit)}",
        *(f"Environment={quoting.variable(key, value)}" for key, value in variables.items()),
        *credentials(unit),
        *([f"User={quoting.line(user)}"] if user else []),
        *_output(unit),
        *restarts(unit),
        *resources(unit),
        *network_access(unit),
        *sandbox(unit),
    ]


def _output(unit: MemberUnit) -> list[str]:
    """Where the engine's output goes: the journal under a name of its own, or a file on the few machines whose manager
    has none. While nobody can tell, where it went already.
    """
    facts = unit.node.facts
    journal = facts.system.journal if facts is not None and facts.system is not None else None
    if journal is None:
        journal = f"\n{_TO_A_FILE}" not in unit.text_before
    if not journal:
        path = quoting.home_line(f"{unit.node.settings.state_dir}/logs/{unit.identifier}.log")
        return [f"{_TO_A_FILE}{path}", "StandardError=inherit"]
    return [f"SyslogIdentifier={unit.identifier}"]
