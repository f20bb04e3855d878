# SPDX-License-Identifier: Apache-2.0
"""What has no place and why, what would make room, and which nodes are left alone: for people (P11)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from llmgw.model.advice import Advice, AdvisedMove
from llmgw.model.ids import NodeName
from llmgw.model.placement import Rejection, Unplaced
from llmgw.plan.wording import NAMES_SHOWN, count, number, some

_REASONS_SHOWN = 16
_CLASS = "class"
_FAR = {_CLASS, "capability", "device-memory", "node-state"}
"""What only other cards would mend, or nobody can tell."""
_NODES_TOLD = 16
"""Up to so many nodes all that keeps them away is told; of more, what the nearest lack."""


def unplaced_lines(unplaced: Iterable[Unplaced]) -> Iterator[str]:
    """What has no place, once for all replicas of which the same is true."""
    for held, those in alike(unplaced):
        names = some([one.replica for one in those])
        if held:
            yield f"! {names} is held back: {held}" if len(those) == 1 else f"! each of {names} is held back: {held}"
        else:
            yield f"! {names} cannot be placed:"
            yield from (f"    {line}" for line in why_not(those))


def alike(unplaced: Iterable[Unplaced]) -> list[tuple[str | None, list[Unplaced]]]:
    """Replicas that have no place for the same reasons, together; with why they are held back, if they are."""
    found: dict[tuple[str | None, str | None], list[Unplaced]] = {}
    for one in unplaced:
        found.setdefault((one.held, None if one.held else one.like or one.replica), []).append(one)
    return [(held, those) for (held, _first), those in found.items()]


def why_not(those: Sequence[Unplaced]) -> Iterator[str]:
    """Who took their place, and why the nodes do not take them: the reasons of most nodes, if there are many. Nodes
    with devices of a class that would do come before those with none.
    """
    took: dict[str, list[str]] = {}
    for one in those:
        if one.gave_way_to is not None:
            took.setdefault(one.gave_way_to, []).append(one.replica)
    for taker, replicas in took.items():
        yield f"{some(replicas)} gave way to {taker}"
    for one in those:
        if one.runs_on:
            yield f"{one.replica} goes on running on {', '.join(one.runs_on)}, though {one.must_leave}"
    rejections = [rejection for one in those for rejection in one.rejections]
    if not rejections:
        yield "the inventory's group `fleet` has no nodes"
    yield from _nowhere(rejections)
    near = _nearest(rejections)
    found = _grouped(one for one in rejections if one.node in near)
    most = sorted(found, key=lambda message: -len(found[message]))[:_REASONS_SHOWN]
    other = _of_other_classes(rejections)
    for message in sorted((one for one in found if one in most), key=lambda one: other.issuperset(found[one])):
        yield f"{some(list(found[message]))}: {message}"
    told = {node for message in most for node in found[message]}
    rest = {one.node for one in rejections} - told
    if rest:
        nearer = len(near) < len({one.node for one in rejections})
        lack, have = ("lacks", "has") if len(rest) == 1 else ("lack", "have")
        told_of_rest = f"{lack} more" if nearer else f"{have} other reasons"
        yield f"{count(rest, 'more node')} {told_of_rest}: `llmgw plan --why {those[0].replica}` tells it all"


def _by_node(rejections: Iterable[Rejection]) -> dict[str, dict[str, set[str]]]:
    """What fails, by node and profile."""
    found: dict[str, dict[str, set[str]]] = {}
    for one in rejections:
        found.setdefault(one.node, {}).setdefault(one.profile, set()).add(one.constraint)
    return found


def _of_other_classes(rejections: Iterable[Rejection]) -> set[str]:
    """The nodes that have no device of a class that any profile asks for."""
    by_node = _by_node(rejections)
    return {node for node, profiles in by_node.items() if all(_CLASS in failing for failing in profiles.values())}


def _nowhere(rejections: Sequence[Rejection]) -> Iterator[str]:
    """That no node at all has a device of the classes that are asked for, where it is so."""
    wanted: dict[str, None] = {}
    for one in rejections:
        if one.constraint == _CLASS:
            wanted[one.message.removeprefix("needs ").partition(", has ")[0]] = None
    every = [set().union(*profiles.values()) for profiles in _by_node(rejections).values()]
    known = [constraints for constraints in every if "node-state" not in constraints]
    if len(known) > 1 and all(_CLASS in constraints for constraints in known):
        yield f"none of {len(known)} nodes has {' or '.join(wanted)}"


def _nearest(rejections: Iterable[Rejection]) -> set[str]:
    """Of many nodes those that fail the fewest constraints: what somebody could do something about."""
    by_node = _by_node(rejections)
    if len(by_node) <= _NODES_TOLD:
        return set(by_node)
    far = {
        node: min(len(failing) + 2 * len(failing & _FAR) for failing in profiles.values())
        for node, profiles in by_node.items()
    }
    least = min(far.values())
    return {node for node, distance in far.items() if distance == least}


def _grouped(rejections: Iterable[Rejection]) -> dict[str, dict[str, None]]:
    """Rejections that say the same of several nodes, told once: a message to its nodes, in their order."""
    by_message: dict[str, dict[str, None]] = {}
    for rejection in rejections:
        by_message.setdefault(rejection.message.removeprefix(f"{rejection.node} "), {})[rejection.node] = None
    return by_message


def advice_lines(advice: Iterable[Advice]) -> Iterator[str]:
    """What would make room, and what it costs (P10)."""
    for one in advice:
        moves = "one move" if len(one.moves) == 1 else f"{len(one.moves)} moves"
        yield f"* {one.replica} would fit on {', '.join(one.nodes)} after {moves}, which this plan does not make:"
        for move in one.moves:
            yield (
                f"    {move.replica}: {', '.join(move.from_nodes)} -> {', '.join(move.to_nodes)}, "
                f"{number(move.devices, 'device')}, up to {move.ready_timeout_s} s to load{_lacks(move)}"
            )


def _lacks(move: AdvisedMove) -> str:
    if not move.nodes_without_weights:
        return ""
    size = "" if not move.weights_bytes else f" ({move.weights_bytes / 10**9:.0f} GB)"
    return f", its weights{size} are not known to be on {', '.join(move.nodes_without_weights)}"


def untouched_lines(nodes: Mapping[NodeName, str]) -> Iterator[str]:
    """The nodes that are left alone, a line each, or one for very many of the same kind."""
    same_reason: dict[str, list[str]] = {}
    for node in sorted(nodes):
        same_reason.setdefault(nodes[node], []).append(node)
    for node in sorted(nodes):
        same = same_reason[nodes[node]]
        if len(same) <= NAMES_SHOWN:
            yield f"! {node} {nodes[node]}"
        elif node == same[0]:
            yield f"! {some(same)}: each {nodes[node]}"
