# SPDX-License-Identifier: Apache-2.0
"""Traffic on /metrics: families computed at scrape time from what the data plane counted (G9).

Nothing is registered per request, so a series lives exactly as long as the service or endpoint that it is about.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from llmgw.gateway.counters import Histogram
from llmgw.gateway.dataplane import DataPlane
from llmgw.gateway.processes.processes import Processes
from llmgw.gateway.table import LiveRoute


class TrafficCollector:
    """A prometheus_client collector over one data plane. May run in another thread: it copies before it walks."""

    def __init__(self, plane: DataPlane, processes: Processes, version: str) -> None:
        self._plane = plane
        self._processes = processes
        self._version = version

    def collect(self) -> Iterator[Metric]:
        """All traffic families."""
        routes = list(self._plane.table.routes.values())
        yield from self._gateway()
        yield from self._workers()
        yield from _requests(routes)
        yield from _services(routes)
        yield _gauge(
            "llmgw_waiting_requests",
            "Requests that wait for their turn.",
            ["service"],
            [([route.spec.service], self._processes.waiting(route)) for route in routes],
        )
        yield from self._endpoints()

    def _gateway(self) -> Iterator[Metric]:
        plane = self._plane
        counters = plane.counters
        bundle = plane.table.bundle
        yield _gauge("llmgw_build_info", "The running llmgw; always 1.", ["version"], [([self._version], 1)])
        yield _gauge("llmgw_draining", "Whether this gateway is shutting down.", [], [([], plane.draining)])
        generation = self._processes.generation
        if generation is not None:
            yield _gauge("llmgw_generation", "Generation of the routes in force.", [], [([], generation)])
        if bundle is not None and plane.table.loaded_at is not None:
            yield _gauge(
                "llmgw_bundle_loaded_timestamp_seconds", "When it came into force.", [], [([], plane.table.loaded_at)]
            )
        yield _counter(
            "llmgw_reload_failures_total",
            "Bundles that were not taken, and reloads that were refused.",
            [],
            [([], counters.reload_failures)],
        )
        yield _counter(
            "llmgw_rejected_total",
            "Requests that the gateway answered itself, by reason.",
            ["reason"],
            [([reason], count) for reason, count in list(counters.refused.items())],
        )
        yield _counter(
            "llmgw_stale_connections_total",
            "Requests sent again because the engine had closed a kept connection.",
            [],
            [([], counters.stale_connections)],
        )
        yield _counter(
            "llmgw_access_log_lines_total", "Lines written to the access log.", [], [([], counters.log_lines)]
        )
        yield _counter(
            "llmgw_access_log_dropped_total",
            "Lines of the access log that could not be written.",
            [],
            [([], counters.log_dropped)],
        )
        yield _gauge("llmgw_request_body_bytes", "Bytes of request bodies held now.", [], [([], plane.bodies.used)])

    def _workers(self) -> Iterator[Metric]:
        yield _gauge(
            "llmgw_workers",
            "Processes that serve clients, by stage; one that hangs is counted in its other stage too.",
            ["stage"],
            [([stage], count) for stage, count in self._processes.workers.items()],
        )
        yield _counter(
            "llmgw_worker_restarts_total",
            "Workers that ended without having been told to.",
            [],
            [([], self._processes.restarts)],
        )

    def _endpoints(self) -> Iterator[Metric]:
        states = GaugeMetricFamily(
            "llmgw_endpoint_state", "The state of an endpoint; always 1.", labels=["endpoint", "service", "state"]
        )
        since = GaugeMetricFamily(
            "llmgw_endpoint_state_since_timestamp_seconds",
            "When the probed state began.",
            labels=["endpoint", "service"],
        )
        in_flight = GaugeMetricFamily(
            "llmgw_endpoint_inflight_requests",
            "Requests that an endpoint has from this gateway.",
            labels=["endpoint", "service"],
        )
        idle = GaugeMetricFamily(
            "llmgw_endpoint_idle_connections", "Kept connections to an endpoint.", labels=["endpoint", "service"]
        )
        for endpoint in list(self._plane.table.endpoints.values()):
            labels = [endpoint.spec.id, endpoint.route.spec.service]
            states.add_metric([*labels, self._processes.state(endpoint)[0].value], 1)
            since.add_metric(labels, endpoint.health.since)
            in_flight.add_metric(labels, endpoint.in_flight)
            idle.add_metric(labels, self._processes.idle(endpoint))
        yield from (states, since, in_flight, idle)


def _requests(routes: list[LiveRoute]) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "llmgw_requests_total", "Requests to a service, by status sent to the client.", labels=["service", "code"]
    )
    failures = CounterMetricFamily(
        "llmgw_upstream_failures_total", "Attempts at an engine that failed, by reason.", labels=["service", "reason"]
    )
    duration = HistogramMetricFamily(
        "llmgw_request_duration_seconds", "From a request's first byte to its answer's last.", labels=["service"]
    )
    first = HistogramMetricFamily(
        "llmgw_time_to_first_byte_seconds",
        "From a streaming request's first byte to the first byte of its answer's body.",
        labels=["service"],
    )
    for route in routes:
        service = route.spec.service
        counters = route.counters
        for code, count in list(counters.requests.items()):
            requests.add_metric([service, str(code)], count)
        for reason, count in list(counters.failures.items()):
            failures.add_metric([service, reason], count)
        _add(duration, service, counters.duration)
        _add(first, service, counters.first_byte)
    yield from (requests, failures, duration, first)


def _services(routes: list[LiveRoute]) -> Iterator[Metric]:
    def family(name: str, text: str, values: list[float]) -> Metric:
        rows: Rows = [([str(route.spec.service)], value) for route, value in zip(routes, values, strict=True)]
        make = _counter if name.endswith("_total") else _gauge
        return make(name, text, ["service"], rows)

    yield family("llmgw_inflight_requests", "Requests in flight.", [route.in_flight for route in routes])
    yield family("llmgw_services_desired_replicas", "Replicas asked for.", [route.spec.desired for route in routes])
    yield family(
        "llmgw_services_ready_replicas", "Replicas that take requests.", [len(route.ready) for route in routes]
    )
    yield family("llmgw_retries_total", "Requests tried again elsewhere.", [route.counters.retries for route in routes])
    yield family("llmgw_client_aborts_total", "Clients that left early.", [route.counters.aborts for route in routes])


Rows = list[tuple[list[str], float]]


def _gauge(name: str, text: str, labels: list[str], rows: Rows) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    return family


def _counter(name: str, text: str, labels: list[str], rows: Rows) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    return family


def _add(family: HistogramMetricFamily, service: str, histogram: Histogram) -> None:
    family.add_metric([service], buckets=histogram.cumulative(), sum_value=histogram.sum)
