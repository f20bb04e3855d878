# SPDX-License-Identifier: BSD-2-Clause
"""Ports that a unit needs and another process has: found out before anything is touched (D14).

Private to llmgw. An engine on a taken port ends minutes later, after the old one was stopped for it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.llmgw.fleet.plugins.module_utils import port_owner, unitchange, unitfile

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
    from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import HostChange, WantedUnit

_BETWEEN_COPIES = re.compile(r"^ExecStart=.* --data-parallel-rpc-port[ =](\d{1,5})(?: |$)", re.MULTILINE)
_GIVES_WAY = (unitchange.RESTARTED, unitchange.STARTED, unitchange.REMOVED)
_STARTS = (unitchange.CREATED, unitchange.RESTARTED, unitchange.STARTED)


def conflicts(host: Host, change: HostChange) -> dict[str, str]:
    """Why a unit that is to start must not, a sentence by unit; those whose ports are free are left out.

    A port of a unit that this change stops, itself among them, is free by then.
    """
    stopping = {step.name for step in change.steps if step.action in _GIVES_WAY}
    found = {}
    for step in change.steps:
        if step.wanted is None or step.action not in _STARTS:
            continue
        for port in ports_of(step.wanted):
            holder = port_owner.holder(host, step.wanted.readiness.address, port)
            if holder is None or stopping.intersection(holder.units):
                continue
            found[step.name] = (
                f"port {port} is taken by {holder}, so nothing was touched. End that process, or keep llmgw off the "
                "port with fleet.port_range"
            )
            break
    return found


def ports_of(unit: WantedUnit) -> tuple[int, ...]:
    """The TCP ports that a unit listens on: for HTTP, and in a group the guard's, and on the leader the meeting's; with
    several copies of the model in one engine also the one by which these are reached.
    """
    header = unitfile.parse(unit.text)
    answers = unit.readiness.kind == "http" and unit.readiness.port is not None
    ports = [unit.readiness.port] if answers else []
    if header.group is not None and header.port is not None:
        ports += [header.port + 1, header.port + 2] if not header.rank else [header.port + 2]
    ports += [int(number) for number in _BETWEEN_COPIES.findall(unit.text)]
    return tuple(port for port in ports if port is not None)
