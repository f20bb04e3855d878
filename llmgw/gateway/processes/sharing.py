# SPDX-License-Identifier: Apache-2.0
"""What a worker counts, as named numbers: which there are, how those of all workers add up, and back into a table.

A name is a mark and words between tabs: `=` what is now (summed, and over with its worker), `+` what only grows
(summed, and kept when its worker ends), `^` a moment (the latest counts). Every number, dict and histogram of a
counters object is shared under its attribute's name: a new counter needs nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter, itemgetter
from typing import Any

from llmgw.gateway.counters import Histogram, PlaneCounters, ServiceCounters
from llmgw.gateway.dataplane import DataPlane
from llmgw.gateway.endpoints.health import State
from llmgw.gateway.table import LiveEndpoint, Table

GENERATION = "=plane\t\tgeneration"
REQUESTS = "=plane\t\trequests"
BODIES = "=plane\t\tbodies"
TOTAL, LATEST = "+^"
TAB = "\t"

Numbers = Mapping[str, float]
Counters = ServiceCounters | PlaneCounters
Of = Callable[[Any], float]
Cell = tuple[str, object, Of]
"""A name, and what its value is read of and how."""

_PLANE: dict[str, Of] = {
    GENERATION: lambda plane: 0 if plane.table.bundle is None else plane.table.bundle.generation,
    REQUESTS: lambda plane: len(plane.exchanges),
}
_ENDPOINT: dict[str, Of] = {
    "=in_flight": attrgetter("in_flight"),
    "=tokens": attrgetter("costs.tokens_ahead"),
    "=ready": lambda endpoint: endpoint.health.state is State.READY,
    "^last_byte": attrgetter("last_byte"),
}
_SERVICE: dict[str, Of] = {"=in_flight": attrgetter("in_flight"), "=waiting": lambda route: len(route.line)}
_KEY: dict[str, Of] = {"=in_flight": attrgetter("in_flight")}
_ENDPOINT_MORE: dict[str, Of] = {
    "+good": attrgetter("good"),
    "+bad": attrgetter("bad"),
    "=idle": lambda endpoint: len(endpoint.pool),
}


class Sheet:
    """All that one worker shares; `read` is for its event loop."""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane
        self._shape: tuple[object, ...] = ()
        self._readers: list[tuple[object, Of]] = []
        self.names: list[str] = []
        self.live = 0

    def read(self) -> list[float]:
        """The values under `names`, the first `live` of them asked for often. Names that stay are the same list."""
        shape = tuple(_shape(self._plane))
        if shape != self._shape:
            self._shape = shape
            live = [*_live(self._plane)]
            cells = [*live, *_others(self._plane)]
            self.live = len(live)
            self.names = [name for name, _thing, _of in cells]
            self._readers = [(thing, of) for _name, thing, of in cells]
        return [of(thing) for thing, of in self._readers]


def _shape(plane: DataPlane) -> Iterator[object]:
    """What the names depend on."""
    table = plane.table
    yield table.loaded_at
    yield tuple(map(id, table.leaving))
    everything: list[Counters] = [plane.counters, *(route.counters for route in table.routes.values())]
    for counters in everything:
        yield tuple(len(value) for value in _values(counters).values() if isinstance(value, dict))


def _live(plane: DataPlane) -> Iterator[Cell]:
    """What others route and wait by."""
    table = plane.table
    for name, of in _PLANE.items():
        yield name, plane, of
    for endpoint in table.everywhere():
        yield from _cells("endpoint", endpoint_key(endpoint), endpoint, _ENDPOINT)
    for service, route in table.routes.items():
        yield from _cells("service", service, route, _SERVICE)
    for key in table.keys:
        yield from _cells("key", key.spec.name, key, _KEY)


def _others(plane: DataPlane) -> Iterator[Cell]:
    """What is only told."""
    yield BODIES, plane.bodies, attrgetter("used")
    yield from _counted("plane", "", plane.counters)
    for endpoint in plane.table.everywhere():
        yield from _cells("endpoint", endpoint_key(endpoint), endpoint, _ENDPOINT_MORE)
    for service, route in plane.table.routes.items():
        yield from _counted("service", service, route.counters)


def _cells(kind: str, key: str, thing: object, fields: dict[str, Of]) -> Iterator[Cell]:
    for name, of in fields.items():
        yield f"{name[0]}{kind}\t{key}\t{name[1:]}", thing, of


def _counted(kind: str, key: str, counters: Counters) -> Iterator[Cell]:
    for name, value in _values(counters).items():
        start = f"{TOTAL}{kind}\t{key}\t{name}"
        if isinstance(value, dict):
            for one in value:
                yield f"{start}\t{one}", value, itemgetter(one)
        elif isinstance(value, Histogram):
            for place in range(len(value.counts)):
                yield f"{start}\t{place}", value.counts, itemgetter(place)
            yield f"{start}\tsum", value, attrgetter("sum")
        else:
            yield start, counters, attrgetter(name)


def _values(counters: Counters) -> dict[str, Any]:
    return {name: getattr(counters, name) for name in counters.__slots__}


# --- sums ---


def total(readings: Iterable[Numbers]) -> dict[str, float]:
    """Many readings as one."""
    summed: dict[str, float] = {}
    for numbers in readings:
        for name, value in numbers.items():
            before = summed.get(name)
            if before is None:
                summed[name] = value
            else:
                summed[name] = max(before, value) if name[0] == LATEST else before + value
    return summed


def kept(numbers: Numbers) -> dict[str, float]:
    """What remains of a worker that has ended: its totals. It has nothing in flight any more."""
    return {name: value for name, value in numbers.items() if name[0] == TOTAL}


def known(numbers: Numbers, table: Table) -> dict[str, float]:
    """The numbers without those of services and endpoints that `table` does not have: they go when these go."""
    keys = {endpoint_key(one) for one in table.everywhere()} | {str(service) for service in table.routes} | {""}
    return {name: value for name, value in numbers.items() if name.split(TAB, 2)[1] in keys}


def endpoint_key(endpoint: LiveEndpoint) -> str:
    """What makes an endpoint the same one in all processes: id, address and port."""
    spec = endpoint.spec
    return f"{spec.id} {spec.address} {spec.port}"


# --- back into a table ---


def put_live(table: Table, numbers: Numbers) -> None:
    """Makes the table show what is in flight by `numbers`; an endpoint that leaves is let go after its last request."""
    for endpoint in table.everywhere():
        key = endpoint_key(endpoint)
        endpoint.in_flight = int(numbers.get(f"=endpoint\t{key}\tin_flight", 0))
        endpoint.last_byte = numbers.get(f"^endpoint\t{key}\tlast_byte", 0.0)
    table.leaving = [endpoint for endpoint in table.leaving if endpoint.in_flight]
    for service, route in table.routes.items():
        route.in_flight = int(numbers.get(f"=service\t{service}\tin_flight", 0))
    for api_key in table.keys:
        api_key.in_flight = int(numbers.get(f"=key\t{api_key.spec.name}\tin_flight", 0))


def put_totals(plane: DataPlane, numbers: Numbers) -> None:
    """Makes the plane's counters those in `numbers`. Each is replaced in whole: a thread may be reading."""
    by_thing: dict[tuple[str, str], dict[str, float]] = {}
    for name, value in numbers.items():
        if name[0] == TOTAL:
            kind, key, rest = name[1:].split(TAB, 2)
            by_thing.setdefault((kind, key), {})[rest] = value
    failures = plane.counters.reload_failures
    plane.counters = _filled(PlaneCounters(), by_thing.get(("plane", ""), {}))
    plane.counters.reload_failures = failures  # each process reads the bundle, and it is one bundle
    for service, route in plane.table.routes.items():
        route.counters = _filled(ServiceCounters(), by_thing.get(("service", service), {}))
    for endpoint in plane.table.everywhere():
        mine = by_thing.get(("endpoint", endpoint_key(endpoint)), {})
        endpoint.good, endpoint.bad = int(mine.get("good", 0)), int(mine.get("bad", 0))


def _filled(counters: Any, numbers: Numbers) -> Any:
    """The fresh `counters` with what `numbers` has of them."""
    for name, value in _values(counters).items():
        if isinstance(value, Histogram):
            value.counts = [int(numbers.get(f"{name}\t{place}", 0)) for place in range(len(value.counts))]
            value.sum = numbers.get(f"{name}\tsum", 0.0)
        elif not isinstance(value, dict):
            setattr(counters, name, int(numbers.get(name, 0)))
    for rest, number in numbers.items():
        name, tab, key = rest.partition(TAB)
        totals = getattr(counters, name, None) if tab else None
        if isinstance(totals, dict):
            totals[int(key) if key.isdigit() else key] = int(number)
    return counters
