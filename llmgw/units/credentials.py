# SPDX-License-Identifier: Apache-2.0
"""Secrets of a unit as systemd credentials: files that only its processes can read, and no text of the unit (R10)."""

from __future__ import annotations

from llmgw.units import quoting
from llmgw.units.member_unit import MemberUnit


def credentials(unit: MemberUnit) -> list[str]:
    """One line for each secret, under its name; two variables may have one secret."""
    folder = f"{unit.node.settings.state_dir}/secrets"
    return [
        f"LoadCredential={quoting.line(name)}:{quoting.home_line(f'{folder}/{name}')}"
        for name in sorted(set(unit.profile.secrets.values()))
    ]
