# SPDX-License-Identifier: Apache-2.0
"""All suppositions of one question, put into the catalog and the fleet together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from llmgw.errors import LlmgwError
from llmgw.model.node import FleetSnapshot
from llmgw.model.replica import Catalog
from llmgw.whatif import edits
from llmgw.whatif.near import service_of
from llmgw.whatif.nodes import with_nodes
from llmgw.whatif.said import Said
from llmgw.whatif.spec import NodesSpec


@dataclass(frozen=True, slots=True)
class Suppositions:
    """What is supposed, in any order; nodes and services by name, `scale` as pairs of a service and a number."""

    nodes: tuple[NodesSpec, ...] = ()
    without: tuple[str, ...] = ()
    drained: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()
    uncordoned: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    scale: tuple[tuple[str, int], ...] = ()

    @property
    def any(self) -> bool:
        """Whether anything is supposed."""
        return self != Suppositions()


@dataclass(frozen=True, slots=True)
class Supposed:
    """The catalog and the fleet as supposed."""

    catalog: Catalog
    fleet: FleetSnapshot
    said: tuple[Said, ...] = ()


def suppose(catalog: Catalog, fleet: FleetSnapshot, wanted: Suppositions) -> Supposed:
    """Catalog and fleet with everything that is supposed. The order in which it was said does not matter: new nodes
    come first, so that they can be built like one that goes. O(nodes) for each supposition. Raises LlmgwError.
    """
    _refuse_contradictions(wanted)
    said: list[Said] = []
    real = fleet
    for spec in sorted(wanted.nodes, key=repr):
        fleet, told = with_nodes(catalog, fleet, spec, real)
        said.append(told)
    for edit, names in _of_nodes(wanted):
        for name in sorted(set(names)):
            fleet, told = edit(fleet, name)
            said.append(told)
    scaled: dict[str, int] = {}
    for called, replicas in sorted(set(wanted.scale)):
        service = service_of(catalog, called).name
        if scaled.setdefault(service, replicas) != replicas:
            raise LlmgwError("what-if-scale", f"{service} is given two numbers of replicas", fix="give it one")
        catalog, told = edits.scale(catalog, called, replicas)
        said.append(told)
    return Supposed(catalog, fleet, tuple(said))


def _refuse_contradictions(wanted: Suppositions) -> None:
    """Raises LlmgwError `what-if-contradiction` for a node that is supposed to be two things at once."""
    closed = {"drained": wanted.drained, "cordoned": wanted.cordoned}
    open_again = {"neither cordoned nor drained": wanted.uncordoned}
    gone = {"not there": wanted.without}
    for first, second in (
        (closed, open_again),
        (gone, {**closed, **open_again, "lost": wanted.lost}),
        ({"lost": wanted.lost}, open_again),
    ):
        for one, names in first.items():
            for other, others in second.items():
                both = sorted({*names} & {*others})
                if both:
                    why = f"{both[0]} cannot be {one} and {other} at once"
                    raise LlmgwError("what-if-contradiction", why, fix="suppose one of the two")


def _of_nodes(
    wanted: Suppositions,
) -> Iterable[tuple[Callable[[FleetSnapshot, str], tuple[FleetSnapshot, Said]], tuple[str, ...]]]:
    """The edits of nodes in the order in which they are made: a node that is taken away can still be named before."""
    return (
        (edits.uncordon, wanted.uncordoned),
        (edits.cordon, wanted.cordoned),
        (edits.drain, wanted.drained),
        (edits.lost, wanted.lost),
        (edits.without_node, wanted.without),
    )
