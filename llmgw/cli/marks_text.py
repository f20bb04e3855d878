# SPDX-License-Identifier: Apache-2.0
"""What became of the marks of nodes, and what comes next, in sentences and as JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from llmgw.apply.declared import places
from llmgw.apply.marks import Answers
from llmgw.cli.cells import some
from llmgw.cli.facts_marks import who
from llmgw.fleet.hosts import Host
from llmgw.fleet.quarantine import names_of
from llmgw.model.node import FleetSnapshot, Node
from llmgw.nodekit import contract
from llmgw.plan.quarantine import quarantines

_VARIABLE = {"cordoned": "llmgw_cordoned", "drained": "llmgw_drained"}
_UNDO = {"cordoned": "uncordon", "drained": "undrain"}
_NAMED = 3
_NOUN = {"cordoned": "cordon", "drained": "drain"}
_PLANNED = "`llmgw plan` shows what is placed there now, `llmgw apply` does it."
_NEXT = {
    "cordon": "Nothing new comes there; what runs stays. `llmgw nodes uncordon` ends it.",
    "uncordon": _PLANNED,
    "drain": "Nothing has moved yet: `llmgw plan` shows what moves, `llmgw apply` moves it.",
    "undrain": _PLANNED,
    "clear": _PLANNED,
}
_SETS = ("cordon", "drain")


@dataclass(frozen=True, slots=True)
class Told:
    """What to say: the result on stdout, what went wrong on stderr."""

    lines: tuple[str, ...]
    errors: tuple[str, ...]


def told(verb: str, answers: Answers, fleet: FleetSnapshot, hosts: Iterable[Host], inventory: Path) -> Told:
    """The sentences about a run; `fleet` is as it was seen after it."""
    variables = {host.name: host.variables for host in hosts}
    lines: list[str] = []
    for name in sorted(answers.marks):
        node = fleet.node(name)
        if node is not None:
            lines += [f"{name}  {text}" for text in _of_node(verb, answers.marks[name], node, fleet.taken_at)]
            lines += [f"{name}  {text}" for text in _still(verb, node, variables.get(name, {}), inventory)]
    if verb == "clear":
        lines += _again(fleet, answers.marks)
    gone = any(one["action"] == "removed" for marks in answers.marks.values() for one in marks)
    if answers.marks and (verb in _SETS or gone):
        lines.append(_NEXT[verb])
    return Told(tuple(lines), tuple(_errors(verb, answers)))


def document(answers: Answers, fleet: FleetSnapshot, names: Sequence[str]) -> dict[str, Any]:
    """The same as JSON values: by node what became of each mark, why it failed, and what holds for it now."""
    nodes = []
    for name in sorted(names):
        node = fleet.node(name)
        facts = node.facts if node is not None else None
        marked = None if facts is None or facts.quarantined is None else [asdict(one) for one in facts.quarantined]
        nodes.append(
            {
                "name": name,
                "marks": answers.marks.get(name),
                "error": answers.failed.get(name) or answers.unreached.get(name),
                "cordoned": node is not None and node.cordoned,
                "drained": node is not None and node.drained,
                "quarantined": marked,
            }
        )
    return {"nodes": nodes, "errors": answers.errors}


def _of_node(verb: str, marks: Iterable[Mapping[str, Any]], node: Node, now: float | None) -> Iterator[str]:
    for one in marks:
        device = one.get("device")
        if device is None:
            yield _node_sentence(str(one["mark"]), str(one["action"]), _who_was_first(verb, node, now))
        else:
            name = ((names_of(node.facts) if node.facts else None) or {}).get(str(device))
            yield _device_sentence(f"{name} ({device})" if name else str(device), one)
    if verb == "clear" and not marks:
        yield "no device of it was quarantined"


def _who_was_first(verb: str, node: Node, now: float | None) -> str | None:
    """By whom, when and why the node had the mark that was asked for; None where none was asked for."""
    facts = node.facts or contract.NodeFacts()
    match verb:
        case "cordon":
            return who(facts.cordon_mark, now)
        case "drain":
            return who(facts.drain_mark, now)
        case _:
            return None


def _node_sentence(mark: str, action: str, first: str | None) -> str:
    match action:
        case "set":
            return f"{mark} now"
        case "changed":
            return f"was {mark} already; the reason is now another one"
        case "removed":
            return f"its {_NOUN[mark]} mark is gone"
        case "failed":
            return f"its {_NOUN[mark]} mark could not be made or taken away"
        case _:
            return f"was not {mark} by a mark" if first is None else f"was {mark} already{first}"


def _device_sentence(name: str, one: Mapping[str, Any]) -> str:
    if one["action"] == "failed":
        return f"the mark of {name} could not be taken away"
    if one["action"] != "removed":
        return f"{name} was not quarantined"
    found = one.get("found")
    return f"{name} is no longer quarantined{f'; it was for this: {found}' if found else ''}"


def _still(verb: str, node: Node, variables: Mapping[str, Any], inventory: Path) -> Iterator[str]:
    """What keeps a node out although a mark of it was taken away."""
    if verb not in ("uncordon", "undrain"):
        return
    own, other = ("cordoned", "drained") if verb == "uncordon" else ("drained", "cordoned")
    if variables.get(_VARIABLE[own]) is True:
        found = places(inventory, node.name, _VARIABLE[own])
        where = f" ({some(found, _NAMED)})" if found else ""
        yield f"is still {own}: its host variable {_VARIABLE[own]} is true{where}; take it out there"
    if node.drained if other == "drained" else node.cordoned:
        by_mark = variables.get(_VARIABLE[other]) is not True
        how = f"`llmgw nodes {_UNDO[other]}` ends that" if by_mark else f"host variable {_VARIABLE[other]}"
        yield f"is still {other} ({how})"


def _again(fleet: FleetSnapshot, names: Iterable[str]) -> list[str]:
    """The devices that the next apply would quarantine again."""
    wanted = set(names)
    return [
        f"{one.node}  {one.device} still has the finding {one.code} ({one.message}): the next apply marks it again"
        for one in quarantines(fleet)
        if one.node in wanted
    ]


def _errors(verb: str, answers: Answers) -> Iterator[str]:
    for name, reason in sorted(answers.failed.items()):
        yield f"{name}  FAILED: {reason}"
    for name, reason in sorted(answers.unreached.items()):
        yield f"{name}  does not answer: {reason}"
    if answers.unreached:
        variable = {"cordon": "llmgw_cordoned", "drain": "llmgw_drained"}.get(verb)
        yield (
            f"A node that does not answer cannot be marked; its host variable {variable}: true in the inventory does "
            "the same without it."
            if variable is not None
            else "The marks of a node that does not answer stay until it does."
        )
    yield from answers.errors
