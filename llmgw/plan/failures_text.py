# SPDX-License-Identifier: Apache-2.0
"""Single losses for people and as JSON values: which would leave a service short, which would take one down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from llmgw.model.failure import Failure
from llmgw.model.ids import ReplicaId

FAILURES_FORMAT = 1
_NAMES_SHOWN = 8
_NODE, _DOMAIN = "node", "domain"


def failure_lines(failures: Sequence[Failure], unplaced: Sequence[ReplicaId] = ()) -> list[str]:
    """Losses that leave a service short, then those that take one down until it is placed anew; said once for all that
    mean the same. `unplaced`: replicas that have no place even without a loss.
    """
    return list(_lines(failures, unplaced))


def failures_document(failures: Iterable[Failure], unplaced: Iterable[ReplicaId] = ()) -> dict[str, Any]:
    """All losses as JSON values, and the replicas that have no place even without one."""
    return {
        "format_version": FAILURES_FORMAT,
        "unplaced": list(unplaced),
        "failures": [
            {
                "kind": one.kind,
                "name": one.name,
                "nodes": list(one.nodes),
                "losses": [
                    {
                        "service": loss.service,
                        "wanted": loss.wanted,
                        "replicas": loss.replicas,
                        "lost": loss.lost,
                        "short": loss.short,
                        "down": loss.down,
                    }
                    for loss in one.losses
                ],
            }
            for one in failures
        ],
    }


def _lines(failures: Sequence[Failure], unplaced: Sequence[ReplicaId]) -> Iterator[str]:
    within = {(one.kind, one.name): found for one in failures if (found := _same_within(one, failures)) is not None}
    if any(one.short or _down(one) for one in failures):
        yield "`!`: replicas would find no other place; `*`: a service would stand still until it runs elsewhere."
    if unplaced:
        have = "replica has" if len(unplaced) == 1 else "replicas have"
        yield f"{len(unplaced)} {have} no place even now: {_some(unplaced)} (`llmgw plan` says why)"
    for kind in sorted({one.kind for one in failures}, key=_rank):
        what = _what(kind)
        every = [one for one in failures if one.kind == kind]
        those = [one for one in every if (kind, one.name) not in within]
        short = [one for one in those if one.short]
        if not any(one.short for one in every):
            yield f"Any one {what} of the {len(every)} that hold replicas may be lost: all of them fit on the rest."
        for told, names in _alike((one, "; ".join(_short(one))) for one in short):
            yield f"! {what} {_some(names)}: {told}"
        down = [one for one in those if _down(one)]
        for told, names in _alike((one, ", ".join(_down(one))) for one in down):
            yield f"* {what} {_some(names)}: nothing would serve {told} until it runs elsewhere"
        same = [f"{one.name} ({within[kind, one.name]})" for one in every if (kind, one.name) in within]
        if same:
            yield f"  {what} {_some(same)}: no more than what is in brackets"
    if not failures:
        yield "No node holds a replica."


def _same_within(failure: Failure, failures: Iterable[Failure]) -> str | None:
    """The node or domain in what fails together whose loss alone means the same, if it means anything to tell."""
    if not (failure.short or _down(failure)):
        return None
    inside = (
        one
        for one in failures
        if _rank(one.kind) < _rank(failure.kind)
        and one.kind in (_NODE, _DOMAIN)
        and one.losses == failure.losses
        and {*one.nodes} <= {*failure.nodes}
    )
    found = min(inside, key=lambda one: (_rank(one.kind), one.name), default=None)
    return None if found is None else found.name if found.kind == _NODE else f"{_what(found.kind)} {found.name}"


def _rank(kind: str) -> tuple[bool, bool, str]:
    """Nodes first, then NVLink domains, then labels by name."""
    return kind != _NODE, kind != _DOMAIN, kind


def _down(failure: Failure) -> list[str]:
    return [loss.service for loss in failure.losses if loss.down]


def _what(kind: str) -> str:
    return "NVLink domain" if kind == _DOMAIN else kind


def _short(failure: Failure) -> Iterator[str]:
    for loss in failure.short:
        now = "" if loss.replicas == loss.wanted else f", and has {loss.replicas} now"
        yield f"{loss.service} would have {loss.replicas - loss.short} of {loss.wanted}{now}"


def _alike(told: Iterable[tuple[Failure, str]]) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for failure, sentence in told:
        found.setdefault(sentence, []).append(failure.name)
    return list(found.items())


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more
