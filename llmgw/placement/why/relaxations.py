# SPDX-License-Identifier: Apache-2.0
"""The cheapest things that would give a replica a place: proposed by `relax`, tried by `trial`, told once for all nodes
on which they are the same (P11).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from llmgw.model.ids import NodeName, ProfileName, ReplicaId
from llmgw.model.placement import Assignment
from llmgw.model.replica import ProfileSpec, ServiceSpec
from llmgw.model.why import Check, Cost, NodeWhy, Relaxation, Step
from llmgw.placement.assign import Outcome
from llmgw.placement.board import Board
from llmgw.placement.why.asked import Asked
from llmgw.placement.why.edits import Edit
from llmgw.placement.why.others import higher_priority, moves, named
from llmgw.placement.why.relax import FIXES, ORDER
from llmgw.placement.why.trial import Trials, joins_of, last_of_services

MOST = 8
"""Relaxations that are told."""
ENOUGH = 3
"""Where fewer are found, those with one step more are looked for too."""
_GROUPS, _TRIES, _MEMBERS, _NAMED, _STEPS = 40, 12, 100, 3, 3
"""Most groups that are tried, trials that fail before a group is given up, nodes of a group that are tried, nodes
that a sentence names, and steps of a relaxation."""
_CHOICES = 2
"""Edits that are looked at for each constraint of a node on which several fail."""
_COSTS = list(Cost)
_SIZED = {"devices", "device-memory"}
"""Constraints that ask something else of a replica of another size."""
Key = tuple[str, ...]


@dataclass(slots=True)
class _Group:
    """Proposals that say the same of several nodes."""

    profile: ProfileSpec
    cost: int
    order: int
    proposals: list[tuple[tuple[float, ...], NodeName, tuple[Edit, ...]]] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """How many things have to be done."""
        return len(self.proposals[0][2])

    @property
    def rank(self) -> tuple[int, int, int, tuple[float, ...], int]:
        """The cheapest first: cost, number of steps, place in the list of kinds, harshness, number of nodes."""
        harshness, _node, edits = self.proposals[0]
        return self.cost, len(edits), self.order, harshness, -len(self.proposals)


def relaxations(
    outcome: Outcome, service: ServiceSpec, replica: ReplicaId, refusals: Sequence[NodeWhy]
) -> tuple[Relaxation, ...]:
    """What would give a replica without a place one, the cheapest first, each tried. `refusals`: what its nodes say."""
    trials = Trials(outcome, service, replica)
    scene = _Scene(outcome.board, service, _last(outcome.board, service), trials.ahead)
    groups = sorted(_grouped(scene, refusals), key=lambda group: group.rank)[:_GROUPS]
    fewest = min((group.steps for group in groups), default=0)
    simple = [group for group in groups if group.steps == fewest]
    found = list(_first(MOST, (_tried(trials, group) for group in simple), ()))
    if len(found) < MOST:
        about = trials, outcome, service, replica, {why.node for why in refusals}
        found += filter(None, (moves(*about), higher_priority(*about)))
    if len(found) < ENOUGH:
        others = [group for group in groups if group.steps == fewest + 1]
        found += _first(MOST - len(found), (_tried(trials, group) for group in others), found)
    return tuple(sorted(found, key=_cheapest_first)[:MOST])


def _cheapest_first(one: Relaxation) -> tuple[int, int, int]:
    return _COSTS.index(one.cost), one.kind.count("+"), _place_of(one.kind)


def _first(most: int, relaxations: Iterable[Relaxation | None], before: Iterable[Relaxation]) -> Iterable[Relaxation]:
    """The first of those that work, each thing to do once: several pools of nodes may ask for the same."""
    return itertools.islice(_once(relaxations, {_what(one) for one in before}), most)


def _once(relaxations: Iterable[Relaxation | None], told: set[Key]) -> Iterator[Relaxation]:
    for one in relaxations:
        if one is not None and _what(one) not in told:
            told.add(_what(one))
            yield one


def _what(one: Relaxation) -> Key:
    return (one.sentence, *(step.entry or "" for step in one.steps))


@dataclass(frozen=True, slots=True)
class _Scene:
    """What proposals are made from: `last` by node, the replicas that go first of services that are not more important;
    `ahead`, replicas of the service that have no place and come first.
    """

    board: Board
    service: ServiceSpec
    last: Mapping[NodeName, tuple[Assignment, ...]]
    ahead: int


def _grouped(scene: _Scene, refusals: Iterable[NodeWhy]) -> list[_Group]:
    profiles = {profile.name: profile for profile in scene.service.profiles}
    groups: dict[Key, _Group] = {}
    for why in refusals:
        profile = profiles[why.profile]
        for edits in _proposals(scene, profile, why):
            for key in _keys(scene.board, profile, why.node, edits):
                cost = max(_COSTS.index(edit.cost) for edit in edits)
                group = groups.setdefault(key, _Group(profile, cost, _order(edits)))
                if group.profile is profile:
                    group.proposals.append((tuple(edit.harshness for edit in edits), why.node, edits))
    for group in groups.values():
        group.proposals.sort(key=lambda one: one[:2])
    return list(groups.values())


def _last(board: Board, service: ServiceSpec) -> dict[NodeName, tuple[Assignment, ...]]:
    """By node the replicas that go first of services that are not more important."""
    names = {one.service.name for one in board.assigned.values() if one.service.priority <= service.priority}
    going = last_of_services(board, sorted(names - {service.name}))
    by_node: dict[NodeName, list[Assignment]] = {}
    for replica in going.values():
        for member in board.assigned[replica].members:
            by_node.setdefault(member.node, []).append(board.assigned[replica])
    return {node: tuple(found) for node, found in by_node.items()}


def _proposals(scene: _Scene, profile: ProfileSpec, why: NodeWhy) -> Iterator[tuple[Edit, ...]]:
    """Edits that together answer all constraints that fail on a node; none where one of them has no remedy."""
    checks = _to_mend(profile, why.failing)
    if not 0 < len(checks) <= _STEPS or any(check.constraint not in FIXES for check in checks):
        return
    board = scene.board
    alike = sum(one.profile.name == profile.name for one in board.on_node[why.node].values())
    asked = Asked(
        scene.service,
        profile,
        board.ledgers[why.node],
        checks[0],
        board.catalog.fleet.port_range,
        scene.last,
        alike,
        scene.ahead,
        board.ask(scene.service, profile).appetite,
    )
    choices = [
        [edit for fix in FIXES[check.constraint] for edit in fix(replace(asked, check=check))] for check in checks
    ]
    if len(choices) > 1:
        choices = [sorted(one, key=lambda edit: _COSTS.index(edit.cost))[:_CHOICES] for one in choices]
    for edits in itertools.product(*choices):
        yield tuple({(edit.step.kind, edit.group): edit for edit in edits}.values())


def _to_mend(profile: ProfileSpec, failing: Sequence[Check]) -> list[Check]:
    """What has to be mended on this node: that too few others have room is mended there, where something else fails."""
    own = [check for check in failing if check.constraint != "partners"]
    failing = own if profile.nodes > 1 and own else list(failing)
    # Another size of a replica asks for other numbers of devices too: the trial tells whether there are as many.
    resized = any(check.constraint == "heads" for check in failing)
    return [check for check in failing if not (resized and check.constraint in _SIZED)]


def _keys(board: Board, profile: ProfileSpec, node: NodeName, edits: Sequence[Edit]) -> Iterator[Key]:
    kinds = itertools.chain.from_iterable((edit.step.kind, edit.group) for edit in edits)
    # What is done on nodes alone is the same whatever profile asks for it.
    key = (*kinds, "" if profile.nodes == 1 and not any(edit.on_profile for edit in edits) else profile.name)
    joins = sorted(joins_of(board.ledgers[node].node)) if profile.nodes > 1 else []
    for join in joins or [""]:
        yield (*key, join)


def _order(edits: Sequence[Edit]) -> int:
    return max(_place_of(edit.step.kind) for edit in edits)


def _place_of(kind: str) -> int:
    return max(map(ORDER.index, kind.split("+")))


def _tried(trials: Trials, group: _Group) -> Relaxation | None:
    """The relaxation of a group as it is found to work; None when it does not."""
    if group.profile.nodes > 1:
        return _together(trials, group)
    if not any(edit.helps_one_node for edit in group.proposals[0][2]):
        return _everywhere(trials, group)
    for position, (harshness, node, edits) in enumerate(group.proposals[:_TRIES]):
        if trials.fits(group.profile.name, {node: edits}):
            others = _members(trials, group, group.proposals[position + 1 :], harshness, edits)
            return _told(group, edits, (node, *others))
    return _together(trials, group) if trials.ahead else None


def _members(
    trials: Trials,
    group: _Group,
    proposals: Iterable[tuple[tuple[float, ...], NodeName, tuple[Edit, ...]]],
    harshness: tuple[float, ...],
    first: Sequence[Edit],
) -> Iterator[NodeName]:
    """Further nodes on which no more than the same helps, with the edits of the catalog as they are for the first."""
    for theirs, node, edits in itertools.islice(proposals, _MEMBERS):
        pairs = list(zip(first, edits, theirs, harshness, strict=True))
        if any(mine > given for _first, _edit, mine, given in pairs) or any(edit.fewer for edit in edits):
            continue
        mixed = tuple(given if given.of_catalog else edit for given, edit, _theirs, _harshness in pairs)
        if trials.fits(group.profile.name, {node: mixed}):
            yield node


def _everywhere(trials: Trials, group: _Group) -> Relaxation | None:
    """An edit of the catalog alone: the mildest that leaves room after those that come first."""
    tried: set[tuple[float, ...]] = set()
    for position, (harshness, _node, edits) in enumerate(group.proposals):
        last = position + 1 == len(group.proposals) or group.proposals[position + 1][0] != harshness
        if not last or harshness in tried:
            continue
        tried.add(harshness)
        nodes = tuple(dict.fromkeys(node for _harshness, node, _edits in group.proposals[: position + 1]))
        if trials.fits(group.profile.name, dict.fromkeys(nodes[-(trials.ahead + 1) :], edits)):
            return _told(group, edits, nodes)
        if len(tried) == _TRIES:
            break
    return None


def _together(trials: Trials, group: _Group) -> Relaxation | None:
    """For a replica of several nodes, or after others: as few nodes as are needed, all at once."""
    most = min(group.profile.nodes + trials.ahead, _TRIES)
    done: dict[NodeName, tuple[Edit, ...]] = {}
    common = {edit.step.kind: edit for edit in group.proposals[-1][2] if edit.of_catalog}
    for _harshness, node, edits in group.proposals[:most]:
        done[node] = tuple(common.get(edit.step.kind, edit) for edit in edits)
        if trials.fits(group.profile.name, done):
            of_catalog = all(edit.of_catalog for edit in done[node])
            return _told(group, done[node], trials.place if of_catalog else tuple(done), together=True)
    return None


def _told(group: _Group, edits: Sequence[Edit], nodes: tuple[NodeName, ...], *, together: bool = False) -> Relaxation:
    names = named(nodes, len(nodes), "and") if together else named(nodes, _NAMED, "or")
    steps: list[Step] = []
    words: list[str] = []
    for edit in sorted(edits, key=lambda one: one.of_catalog):
        said = edit.step.words.replace("{nodes}", names if not words or len(nodes) == 1 else "the same node")
        steps.append(replace(edit.step, words=said))
        words.append(said)
    cost = max((edit.cost for edit in edits), key=_COSTS.index)
    cautions = dict.fromkeys(edit.caution for edit in edits if edit.caution)
    return Relaxation(
        "+".join(step.kind for step in steps),
        ", and ".join(words),
        cost,
        nodes,
        ProfileName(group.profile.name),
        tuple(steps),
        "; ".join(cautions) or None,
        together,
    )
