# SPDX-License-Identifier: Apache-2.0
"""What the unit of a member on its node says already: what nobody can tell now stays as it is (D18, R5)."""

from __future__ import annotations

from llmgw.engines import unit_words
from llmgw.engines.base import Traits, command_of
from llmgw.engines.unit_text import has_failed, unit_text
from llmgw.engines.weights_path import HUB_CACHE, HUB_OFFLINE, hub_environment, model_source
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member

_MODEL_OPTIONS = frozenset({"--model", "--model-path"})
"""With one of these begins what llmgw tells an engine, after its command."""
_SERVED = "--served-model-name"
"""Where there is none of them, the model is the word before this one."""


def command_on(traits: Traits, assignment: Assignment, member: Member, node: Node) -> tuple[str, ...]:
    """The engine's command for a member: what the node's facts found; where they found none, what runs there already,
    for an engine that cannot be looked for now may not be restarted by another name; else as for a new one.

    The command that runs ends with the subcommand, where it was told one.
    """
    engines = (node.facts.engines or ()) if node.facts else ()
    found = any(one.kind == traits.kind and one.command for one in engines)
    before = () if found else command_before(assignment, member, node)
    return before or command_of(traits, node)


def command_before(assignment: Assignment, member: Member, node: Node) -> tuple[str, ...]:
    """The engine's command in the member's unit on the node; empty when that runs another engine, or there is none that
    can be read back.
    """
    text = unit_text(assignment, member, node)
    if unit_words.setting(text, "Engine") not in {None, assignment.profile.engine}:
        return ()
    words = unit_words.engine_words(text)
    for number, word in enumerate(words):
        if word in _MODEL_OPTIONS:
            return words[:number]
        if word == _SERVED:
            return words[: number - 1]
    return ()


def model_on(assignment: Assignment, member: Member, node: Node) -> str:
    """The model that a member is given, see `model_source`."""
    failed = has_failed(assignment, member, node)
    return model_source(assignment.profile.model, node, given_before(assignment, member, node), failed=failed)


def hub_on(assignment: Assignment, member: Member, node: Node) -> dict[str, str]:
    """Where a member finds weights that llmgw fetches, see `hub_environment`."""
    model, before = assignment.profile.model, None
    if not model.fetch:
        return {}
    same = given_before(assignment, member, node) == model.hf_id
    if same and variable_before(assignment, member, node, HUB_OFFLINE) == "1":
        before = variable_before(assignment, member, node, HUB_CACHE)
    return hub_environment(model, node, before, failed=has_failed(assignment, member, node))


def given_before(assignment: Assignment, member: Member, node: Node) -> str | None:
    """The model in the command line of the member's unit on the node; None when there is no such unit.

    It is named by the first option for it: those of a profile's `args` come last.
    """
    words = unit_words.engine_words(unit_text(assignment, member, node))
    for number, word in enumerate(words):
        if word in _MODEL_OPTIONS:
            return words[number + 1] if number + 1 < len(words) else None
        if word == _SERVED:
            return words[number - 1] if number > 1 else None
    return None


def variable_before(assignment: Assignment, member: Member, node: Node, name: str) -> str | None:
    """The value of a variable in the member's unit on the node; None when there is none, or no such unit."""
    return unit_words.variable(unit_text(assignment, member, node), name)
