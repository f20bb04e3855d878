# SPDX-License-Identifier: Apache-2.0
"""The command line of a unit: the engine's own, behind the guard where members form a group or need secrets (R7, R10).

The guard is one file on the node. `env` finds Python, for its path differs between distributions; `-I` keeps the
engine's PYTHONPATH and PYTHONHOME from it.
"""

from __future__ import annotations

from llmgw.engines.members import guard_address
from llmgw.units import quoting
from llmgw.units.member_unit import MemberUnit

ENV = "/usr/bin/env"
GUARD = "guard.py"


def exec_start(unit: MemberUnit) -> str:
    """The value of ExecStart=. Raises LlmgwError `unit-text` for a command that cannot stand in a unit."""
    argv = unit.launch.argv
    program, arguments = quoting.program(argv[0]), map(quoting.word, argv[1:])
    if unit.group is None and not unit.profile.secrets:
        return " ".join((program, *arguments))
    guard = quoting.home_word(f"{unit.node.settings.state_dir}/{GUARD}")
    options = map(quoting.word, (*_secrets(unit), *_group(unit)))
    return " ".join((ENV, "python3", "-I", guard, *options, "--", *map(quoting.word, argv)))


def _secrets(unit: MemberUnit) -> list[str]:
    return [word for key, name in sorted(unit.profile.secrets.items()) for word in ("--secret", f"{key}={name}")]


def _group(unit: MemberUnit) -> list[str]:
    if unit.group is None:
        return []
    members = [
        word
        for one in sorted(unit.assignment.members, key=lambda one: one.rank)
        for word in ("--member", f"{one.rank}={guard_address(one, unit.nodes[one.node])}")
    ]
    rank = ["--rank", str(unit.member.rank)]
    return ["--group", unit.group, *rank, *members, "--stop-timeout", str(unit.drain_s)]
