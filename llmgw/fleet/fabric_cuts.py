# SPDX-License-Identifier: Apache-2.0
"""What speaks against ports being in one subnet, and which of them are then the odd ones (D9). Pure.

Ports cannot share a subnet when they have one LID, managers at different LIDs, different prefixes that somebody set, or
no partition in common. Of two sides the lighter one is wrong: a port against many is named, not the many against it.
Ports that are proved to share a subnet are one side, so what cuts one of them off cuts all of them off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmgw.fleet.fabric_evidence import PortEvidence, Subnets, why_joined


@dataclass(frozen=True, slots=True)
class _Trait:
    """Something that all ports of a subnet have alike."""

    read: Callable[[PortEvidence], Any]
    """None or empty: not known."""
    differs: Callable[[Any, Any], bool]
    say: Callable[[Any, Any, str], str]


_MANAGER = _Trait(
    lambda port: port.sm_lid,
    lambda one, other: bool(one != other),
    lambda one, other, who: f"its subnet manager has LID {one}, and that of {who} has LID {other}",
)
_PREFIX = _Trait(
    lambda port: port.own_prefix,
    lambda one, other: bool(one != other),
    lambda one, other, who: f"its subnet prefix is {one}, and that of {who} is {other}",
)
_PARTITIONS = _Trait(
    lambda port: port.partitions,
    lambda one, other: not one & other,
    lambda one, other, who: f"it shares no partition with {who} ({_keys(one)}; there {_keys(other)})",
)
_WITHIN = (_PREFIX, _PARTITIONS)
"""What is looked at among ports that are proved to share a subnet: its manager may have moved between two looks."""


def contradictions(
    ports: Sequence[PortEvidence], members: Sequence[int], component: Mapping[int, int]
) -> dict[int, tuple[str, ...]]:
    """The members that cannot be in one subnet with the others, with the reasons as sentences.

    `members` are indexes into `ports`; `component` says which of them are proved to share a subnet.
    """
    found: dict[int, list[str]] = {}
    sides: dict[int, list[int]] = {}
    for index in members:
        sides.setdefault(component[index], []).append(index)
    for side in sides.values():
        _within(ports, side, found)
    sound = {name: [index for index in side if index not in found] for name, side in sides.items()}
    sound = {name: side for name, side in sound.items() if side}
    for trait in (_MANAGER, _PREFIX, _PARTITIONS):
        _between(ports, sound, trait, found)
    _same_lid(ports, sound, found)
    return {index: tuple(sentences) for index, sentences in found.items()}


def join_by_prefix(ports: Sequence[PortEvidence], subnets: Subnets) -> None:
    """Join the ports that have one subnet prefix which somebody set, as far as nothing refutes it.

    Two fabrics may have been given one prefix by mistake: what their subnets say of themselves then tells, or their
    LIDs. Where what is refuted is not the smaller part, the prefix proves nothing at all.
    """
    alike: dict[str, list[int]] = {}
    for index, port in enumerate(ports):
        if port.own_prefix is not None:
            alike.setdefault(port.own_prefix, []).append(index)
    for indexes in alike.values():
        component = {index: subnets.component(index) for index in indexes}
        known = {component[index] for index in indexes if ports[index].knows_its_subnet}
        refuted = contradictions(ports, indexes, component)
        rest = [index for index in indexes if index not in refuted]
        if len(known) <= 1 and len(refuted) < len(rest):
            subnets.join(rest)


def _within(ports: Sequence[PortEvidence], side: Sequence[int], found: dict[int, list[str]]) -> None:
    for trait in _WITHIN:
        groups: dict[Any, list[int]] = {}
        for index in side:
            value = trait.read(ports[index])
            if value:
                groups.setdefault(value, []).append(index)
        _outvoted(ports, groups, {value: len(group) for value, group in groups.items()}, trait, found)
    for holders in _by_lid(ports, side).values():
        for index in holders if len(holders) > 1 else ():
            _add(found, index, _same(ports[index], ports[holders[0] if index != holders[0] else holders[1]]))


def _between(
    ports: Sequence[PortEvidence], sides: Mapping[int, Sequence[int]], trait: _Trait, found: dict[int, list[str]]
) -> None:
    groups: dict[Any, list[int]] = {}
    weights: Counter[Any] = Counter()
    for side in sides.values():
        counted = Counter(value for value in (trait.read(ports[index]) for index in side) if value)
        if counted:
            value = min(counted, key=lambda one: (-counted[one], _order(one)))
            groups.setdefault(value, []).extend(side)
            weights[value] += len(side)
    _outvoted(ports, groups, weights, trait, found)


def _outvoted(
    ports: Sequence[PortEvidence],
    groups: Mapping[Any, list[int]],
    weights: Mapping[Any, int],
    trait: _Trait,
    found: dict[int, list[str]],
) -> None:
    """Groups of ports by a value: those that differ from the heaviest are wrong, and it too when another is as
    heavy.
    """
    ranked = sorted(groups, key=lambda value: (-weights[value], _order(value)))
    for value in ranked[1:]:
        if trait.differs(value, ranked[0]):
            _tell(ports, groups, trait, (value, ranked[0]), found)
    rival = next((value for value in ranked[1:] if trait.differs(value, ranked[0])), None)
    if rival is not None and weights[rival] == weights[ranked[0]]:
        _tell(ports, groups, trait, (ranked[0], rival), found)


def _tell(
    ports: Sequence[PortEvidence],
    groups: Mapping[Any, list[int]],
    trait: _Trait,
    values: tuple[Any, Any],
    found: dict[int, list[str]],
) -> None:
    wrong, right = values
    theirs = _first(ports, (index for index in groups[right] if trait.read(ports[index]) == right))
    more = f" and {len(groups[right]) - 1} more" if len(groups[right]) > 1 else ""
    sentence = trait.say(wrong, right, f"{ports[theirs].name}{more}")
    witness = _first(ports, (index for index in groups[wrong] if trait.read(ports[index]) == wrong))
    for index in groups[wrong]:
        own = trait.read(ports[index]) == wrong
        _add(found, index, sentence if own else _through(ports[index], ports[witness], sentence))


def _same_lid(ports: Sequence[PortEvidence], sides: Mapping[int, Sequence[int]], found: dict[int, list[str]]) -> None:
    """One LID in two sides: the lighter side is in another subnet, both when they are as heavy."""
    side_of = {index: name for name, side in sides.items() for index in side}
    spread: set[int] = set()
    for holders in _by_lid(ports, sorted(side_of)).values():
        if len(holders) == 1:
            continue
        ranked = sorted(holders, key=lambda index: (-len(sides[side_of[index]]), _place(ports[index])))
        as_heavy = len(sides[side_of[ranked[1]]]) == len(sides[side_of[ranked[0]]])
        for index in ranked if as_heavy else ranked[1:]:
            sentence = _same(ports[index], ports[ranked[0] if index != ranked[0] else ranked[1]])
            _add(found, index, sentence)
            if side_of[index] not in spread:  # one reason is enough for those that only share a subnet with it
                spread.add(side_of[index])
                for fellow in sides[side_of[index]]:
                    if fellow != index:
                        _add(found, fellow, _through(ports[fellow], ports[index], sentence))


def _by_lid(ports: Sequence[PortEvidence], indexes: Iterable[int]) -> dict[int, list[int]]:
    """The ports by LID. An adapter may show one port as two devices: that one counts once."""
    holders: dict[int, list[int]] = {}
    seen: set[tuple[int, str, str]] = set()
    for index in indexes:
        port = ports[index]
        if port.lid is None:
            continue
        if port.port_guid is not None:
            if (port.lid, port.node, port.port_guid) in seen:
                continue
            seen.add((port.lid, port.node, port.port_guid))
        holders.setdefault(port.lid, []).append(index)
    return holders


def _same(one: PortEvidence, other: PortEvidence) -> str:
    return f"its LID {one.lid} is that of {other.name} too, and a subnet gives each LID once"


def _through(port: PortEvidence, fellow: PortEvidence, sentence: str) -> str:
    return f"{why_joined(port, fellow)}; of that one: {sentence}"


def _add(found: dict[int, list[str]], index: int, sentence: str) -> None:
    sentences = found.setdefault(index, [])
    if sentence not in sentences:
        sentences.append(sentence)


def _first(ports: Sequence[PortEvidence], indexes: Iterable[int]) -> int:
    return min(indexes, key=lambda index: _place(ports[index]))


def _place(port: PortEvidence) -> tuple[str, str, int]:
    return (port.node, port.device, port.port)


def _order(value: Any) -> str:
    return ",".join(map(str, sorted(value))) if isinstance(value, frozenset) else f"{value!s:0>8}"


def _keys(partitions: frozenset[int]) -> str:
    return ", ".join(f"0x{one | 0x8000:04x}" for one in sorted(partitions))
