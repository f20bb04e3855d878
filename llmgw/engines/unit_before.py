# SPDX-License-Identifier: Apache-2.0
"""What the unit of a member on its node says already: what nobody can tell now stays as it is (D18, R5)."""

from __future__ import annotations

import re

from llmgw.engines.base import Traits, command_of
from llmgw.engines.unit_text import unit_text
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member

_BEHIND_THE_GUARD = re.compile(r"^ExecStart=(?:/usr/bin/env python3 .*? -- )?(.*)$", re.MULTILINE)
_FIRST_OWN_WORDS = frozenset({"serve", "--model", "--model-path"})
"""With one of these begins what llmgw tells an engine, after its command."""


def command_on(traits: Traits, assignment: Assignment, member: Member, node: Node) -> tuple[str, ...]:
    """The engine's command for a member: what the node's facts found; where they found none, what runs there already,
    for an engine that cannot be looked for now may not be restarted by another name; else as for a new one.
    """
    engines = (node.facts.engines or ()) if node.facts else ()
    found = any(one.kind == traits.kind and one.command for one in engines)
    before = None if found else _command(unit_text(assignment, member, node))
    return before or command_of(traits, node)


def given_before(assignment: Assignment, member: Member, node: Node, after: str) -> str | None:
    """The word after `after` in the command line of the member's unit on the node; None when there is no such unit."""
    found = re.search(rf"^ExecStart=.* {re.escape(after)} (\S+)", unit_text(assignment, member, node), re.MULTILINE)
    return found[1] if found else None


def variable_before(assignment: Assignment, member: Member, node: Node, name: str) -> str | None:
    """The value of a variable in the member's unit on the node; None when there is none, or no such unit."""
    found = re.search(rf"^Environment={name}=(\S*)$", unit_text(assignment, member, node), re.MULTILINE)
    return found[1] if found else None


def _command(text: str) -> tuple[str, ...] | None:
    """The words before llmgw's own; None where there are none, and where one of them is quoted."""
    found = _BEHIND_THE_GUARD.search(text)
    words = found[1].split(" ") if found else []
    own = next((number for number, word in enumerate(words) if word in _FIRST_OWN_WORDS), 0)
    command = tuple(word.replace("%%", "%").replace("$$", "$") for word in words[:own])
    return command if command and not any('"' in word for word in command) else None
