# SPDX-License-Identifier: Apache-2.0
"""Checks of what services do with requests: fallbacks and splits that lead somewhere, lines that somebody waits in."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw.catalog import codes
from llmgw.catalog.checks.references import dangling, repeated
from llmgw.catalog.problem import Problem
from llmgw.catalog.schema.document import Document
from llmgw.catalog.schema.services import Admission, Routing
from llmgw.catalog.tree import Path

Edge = tuple[str, str, Path]
"""A service, another one that may answer in its place, and where the catalog says so."""


def check_routing(document: Document) -> Iterator[Problem]:
    """Problems of `routing` and `admission` of every service, and of the ways from service to service."""
    edges: dict[str, list[Edge]] = {}
    for name, service in document.services.items():
        path: Path = ("services", name)
        yield from _admission((*path, "admission"), service.admission)
        yield from repeated((*path, "routing", "fallbacks"), service.routing.fallbacks, "the service")
        edges[name] = list(_edges(name, service.routing, (*path, "routing")))
        for edge in edges[name]:
            yield from _leads_on(edge, document)
    yield from _circles(edges)


def _admission(path: Path, admission: Admission) -> Iterator[Problem]:
    if admission.max_queue is not None and admission.max_concurrency is None:
        why = "`max_queue` is how many requests may wait, and without `max_concurrency` none ever has to"
        reads: tuple[Path, ...] = ((*path, "max_concurrency"),)
        fix = "Set `max_concurrency`, or remove `max_queue`."
        yield Problem((*path, "max_queue"), codes.ADMISSION, why, fix, at_key=True, reads=reads)
    if admission.queue_timeout is not None and admission.max_queue is None:
        why = "`queue_timeout` is how long a request may wait, and without `max_queue` none does"
        reads = ((*path, "max_queue"),)
        fix = "Set `max_queue`, or remove `queue_timeout`."
        yield Problem((*path, "queue_timeout"), codes.ADMISSION, why, fix, at_key=True, reads=reads)


def _edges(name: str, routing: Routing, path: Path) -> Iterator[Edge]:
    for number, other in enumerate(routing.fallbacks):
        yield name, other, (*path, "fallbacks", number)
    if routing.split is not None:
        yield name, routing.split.service, (*path, "split", "service")


def _leads_on(edge: Edge, document: Document) -> Iterator[Problem]:
    name, other, path = edge
    served = {service.served_name: key for key, service in document.services.items() if service.served_name}
    if name == other:
        why = f"`{name}` is this service itself"
        yield Problem(path, codes.ROUTING, why, "Name another service, or remove it.")
    elif other not in document.services and other in served:
        why = f"`{other}` is the served name of a service, and here stands a service's own name"
        fix = f"Did you mean `{served[other]}`?"
        yield Problem(path, codes.REFERENCE, why, fix, reads=(("services",),))
    else:
        yield from dangling(path, "services", other, document.services)


def _circles(edges: dict[str, list[Edge]]) -> Iterator[Problem]:
    """One problem for each service that is the first by name on a way that leads back to it: the shortest one."""
    for start in sorted(edges):
        circle = _way_back(start, edges)
        if circle:
            names = " -> ".join(f"`{name}`" for name in (start, *(edge[1] for edge in circle)))
            why = f"{names}: each is to answer in the place of the one before, so none is the last to be asked"
            places = tuple(edge[2] for edge in circle)
            fix = "Remove one of these fallbacks or splits."
            yield Problem(places[0], codes.ROUTING, why, fix, reads=places, other=places[1])


def _way_back(start: str, edges: dict[str, list[Edge]]) -> tuple[Edge, ...]:
    """The shortest way from a service over others that come after it by name back to it; empty: there is none."""
    ways: list[tuple[Edge, ...]] = [(edge,) for edge in edges[start]]
    seen = {start}
    for way in ways:
        here = way[-1][1]
        if here == start and len(way) > 1:
            return way
        if here > start and here not in seen:
            seen.add(here)
            ways += [(*way, edge) for edge in edges.get(here, ())]
    return ()
