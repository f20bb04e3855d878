# SPDX-License-Identifier: Apache-2.0
"""The [Unit] section: what the unit is, and what must be up before it."""

from __future__ import annotations

from llmgw.units import quoting
from llmgw.units.devices import before_cards
from llmgw.units.member_unit import MemberUnit
from llmgw.units.restarts import start_limit


def unit_section(unit: MemberUnit) -> list[str]:
    """The lines, heading first. Weights may be on a network filesystem, which is mounted late."""
    replica, model = quoting.line(unit.assignment.replica), quoting.line(unit.profile.model.name)
    after = ["Wants=network-online.target", "After=network-online.target remote-fs.target", *before_cards(unit)[0]]
    return [
        "[Unit]",
        f"Description=llmgw {replica}: {model} on {unit.profile.engine}",
        *(after if unit.system else ["After=default.target"]),
        *start_limit(unit),
    ]
