# SPDX-License-Identifier: Apache-2.0
"""What a worker counts comes out in the control process's own table as if that had counted it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from llmgw.gateway.counters import count
from llmgw.gateway.dataplane import DataPlane
from llmgw.gateway.processes import elsewhere, sharing
from llmgw.gateway.processes.channel import Elsewhere
from llmgw.gateway.processes.sharing import Sheet
from llmgw.gateway.table import Table
from llmgw.model.ids import EndpointId, EngineKind, NodeName, ReplicaId, ServiceName
from llmgw.model.replica import AdmissionSpec, ApiKeySpec, GatewaySpec
from llmgw.model.route import BUNDLE_FORMAT, Bundle, Endpoint, Route, RouteTable


def bundle(generation: int, *services: str) -> Bundle:
    routes = tuple(
        Route(ServiceName(service), service, (), tuple(endpoint(service, number) for number in range(2)), 2)
        for service in services
    )
    keys = (ApiKeySpec("team", "ab" * 32),)
    return Bundle(BUNDLE_FORMAT, generation, f"sha256:{generation}", RouteTable(routes, GatewaySpec(keys=keys)))


def endpoint(service: str, number: int) -> Endpoint:
    replica = f"{service}/{number}"
    return Endpoint(
        id=EndpointId(f"{replica}@n1"),
        replica=ReplicaId(replica),
        node=NodeName("n1"),
        address="10.0.0.1",
        port=18000 + number,
        engine=EngineKind("sim"),
        model="m",
    )


def with_planes(number: int, work: Callable[..., None]) -> None:
    async def whole() -> None:
        planes = [DataPlane(Table(lambda _name: None), 0) for _number in range(number)]
        for plane in planes:
            plane.table.swap(bundle(1, "chat", "embed"), 1.0)
        work(*planes)

    asyncio.run(whole())


def read(plane: DataPlane) -> dict[str, float]:
    sheet = Sheet(plane)
    values = sheet.read()
    assert len(values) == len(sheet.names) == len(set(sheet.names))
    return dict(zip(sheet.names, values, strict=True))


def busy(plane: DataPlane, times: int) -> None:
    """Does to a plane what `times` requests do."""
    route = plane.table.routes["chat"]
    for number in range(times):
        count(route.counters.requests, 200)
        count(route.counters.failures, "cut")
        count(plane.counters.refused, "unknown_model")
        route.counters.duration.add(0.3 + number)
        route.counters.retries += 1
        plane.counters.stale_connections += 1
        route.in_flight += 1
        route.endpoints[0].in_flight += 1
        route.endpoints[0].good += 1
        route.endpoints[1].bad += 1
        next(iter(plane.table.keys)).in_flight += 1
    route.endpoints[0].last_byte = float(times)


def test_the_sums_of_two_workers_are_what_one_process_would_have_counted() -> None:
    def work(first: DataPlane, second: DataPlane, control: DataPlane, alone: DataPlane) -> None:
        busy(first, 3)
        busy(second, 4)
        busy(alone, 7)
        sums = sharing.total([read(first), read(second)])
        sharing.put_live(control.table, sums)
        sharing.put_totals(control, sums)
        there, expected = read(control), read(alone)
        for name in (sharing.GENERATION, "^endpoint\tchat/0@n1 10.0.0.1 18000\tlast_byte"):
            del there[name], expected[name]
        duration = "+service\tchat\tduration\tsum"
        assert there.pop(duration) == 0.3 * 7 + 3 + 6
        expected.pop(duration)
        buckets = [name for name in expected if "\tduration\t" in name]
        assert sum(there.pop(name) for name in buckets) == sum(expected.pop(name) for name in buckets) == 7
        assert there == expected
        assert control.table.routes["chat"].endpoints[0].last_byte == 4
        assert control.table.routes["chat"].counters.requests == {200: 7}
        assert control.counters.refused == {"unknown_model": 7}

    with_planes(4, work)


def test_names_change_with_the_table_and_with_new_keys_of_totals_and_not_else() -> None:
    def work(plane: DataPlane) -> None:
        sheet = Sheet(plane)
        sheet.read()
        names = sheet.names
        plane.table.routes["chat"].in_flight += 1
        sheet.read()
        assert sheet.names is names
        count(plane.table.routes["chat"].counters.requests, 418)
        values = sheet.read()
        assert dict(zip(sheet.names, values, strict=True))["+service\tchat\trequests\t418"] == 1
        plane.table.swap(bundle(2, "other"), 2.0)
        sheet.read()
        assert not any("\tchat\t" in name for name in sheet.names[: sheet.live])
        assert all(name[0] in "=^" for name in sheet.names[: sheet.live])

    with_planes(1, work)


def test_totals_of_ended_workers_go_with_their_service() -> None:
    def work(plane: DataPlane) -> None:
        busy(plane, 2)
        retired = sharing.kept(read(plane))
        assert sharing.known(retired, plane.table) == retired
        plane.table.swap(bundle(2, "embed"), 2.0)
        for one in plane.table.leaving:
            one.in_flight = 0
        plane.table.leaving.clear()
        left = sharing.known(retired, plane.table)
        assert "+plane\t\trefused\tunknown_model" in left
        assert not any("chat" in name for name in left)

    with_planes(1, work)


def test_an_endpoint_that_leaves_is_told_of_until_its_last_request_anywhere() -> None:
    def work(worker: DataPlane, control: DataPlane) -> None:
        busy(worker, 1)
        sharing.put_live(control.table, read(worker))
        for plane in (worker, control):
            plane.table.swap(bundle(2, "embed"), 2.0)
        sharing.put_live(control.table, read(worker))
        assert [one.spec.id for one in control.table.leaving] == ["chat/0@n1"]
        worker.table.released(worker.table.leaving[0])
        sharing.put_live(control.table, read(worker))
        assert control.table.leaving == []

    with_planes(2, work)


def test_each_worker_reckons_with_what_the_others_have_until_it_is_told_no_more() -> None:
    def work(first: DataPlane, second: DataPlane) -> None:
        busy(first, 3)
        busy(second, 4)
        sums = sharing.total([read(first), read(second)])
        elsewhere.put(first.table, elsewhere.without(sums, read(first)))
        route, key = first.table.routes["chat"], next(iter(first.table.keys))
        assert route.endpoints[0].costs.elsewhere_requests == 4
        assert route.endpoints[1].costs.elsewhere_requests == 0
        assert (route.elsewhere, first.table.routes["embed"].elsewhere, key.elsewhere) == (4, 0, 4)
        elsewhere.forget(first.table)
        assert route.endpoints[0].costs.elsewhere_requests == 0
        assert (route.elsewhere, key.elsewhere) == (None, None)

    with_planes(2, work)


def waits(waiting: int, in_flight: int) -> dict[str, float]:
    return {"=service\tchat\twaiting": waiting, "=service\tchat\tin_flight": in_flight}


def test_a_worker_alone_with_those_who_wait_may_have_all_places() -> None:
    assert elsewhere.divided({"chat": 4}, [waits(9, 4), waits(0, 0)], 0) == [{}, {}]


def test_workers_that_wait_for_one_service_get_equal_parts_of_what_the_others_leave() -> None:
    assert elsewhere.divided({"chat": 4}, [waits(9, 4), waits(1, 0)], 0) == [{"chat": 2}, {"chat": 2}]
    assert elsewhere.divided({"chat": 8}, [waits(9, 6), waits(0, 2), waits(1, 0)], 0) == [{"chat": 3}, {}, {"chat": 3}]


def test_a_place_that_does_not_divide_goes_around() -> None:
    turns = [elsewhere.divided({"chat": 1}, [waits(9, 1), waits(9, 0), waits(9, 0)], turn) for turn in range(3)]
    assert [[share["chat"] for share in shares] for shares in turns] == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]


def test_a_share_bounds_what_a_worker_may_have_until_it_is_told_otherwise() -> None:
    def work(plane: DataPlane) -> None:
        route = plane.table.routes["chat"]
        route.update(replace(route.spec, admission=AdmissionSpec(max_concurrency=4)))
        elsewhere.put(plane.table, Elsewhere({}, {"chat": 1}, {}, {"chat": 2}))
        assert route.max_concurrency == 2
        elsewhere.put(plane.table, Elsewhere({}, {"chat": 1}, {}))
        assert route.max_concurrency == 3

    with_planes(1, work)
