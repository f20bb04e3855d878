# SPDX-License-Identifier: Apache-2.0
"""The fleet on /metrics: families computed at scrape time from the newest bundle: one target for the fleet (G9).

A number that no node reported is an absent series, never zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from llmgw.gateway.admin.fleet_view import FleetView, NodeView, read_fleet
from llmgw.gateway.table import Table

UNKNOWN = "unknown"


class FleetCollector:
    """A prometheus_client collector over the bundle's fleet document."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def collect(self) -> Iterator[Metric]:
        """All fleet families; none before there is a fleet document."""
        bundle = self._table.bundle
        if bundle is None or bundle.fleet is None:
            return
        fleet = read_fleet(bundle.fleet)
        yield from _fleet(fleet)
        yield from _memory(fleet.nodes)
        yield _devices(fleet.nodes)


def _fleet(fleet: FleetView) -> Iterator[Metric]:
    if fleet.taken_at is not None:
        yield GaugeMetricFamily(
            "llmgw_fleet_snapshot_timestamp_seconds", "When the fleet document was made.", value=fleet.taken_at
        )
    nodes = GaugeMetricFamily("llmgw_nodes", "Nodes by state.", labels=["state"])
    for state, count in sorted(Counter(node.state or UNKNOWN for node in fleet.nodes).items()):
        nodes.add_metric([state], count)
    findings = GaugeMetricFamily(
        "llmgw_node_findings", "Findings about a node by severity.", labels=["node", "severity"]
    )
    units = GaugeMetricFamily("llmgw_node_units", "Units of a node by state.", labels=["node", "state"])
    for node in fleet.nodes:
        for severity, count in sorted(Counter(finding.severity or UNKNOWN for finding in node.findings).items()):
            findings.add_metric([node.name, severity], count)
        for state, count in sorted(Counter(unit.state or UNKNOWN for unit in node.units).items()):
            units.add_metric([node.name, state], count)
    yield from (nodes, findings, units)


def _memory(nodes: tuple[NodeView, ...]) -> Iterator[Metric]:
    total = GaugeMetricFamily("llmgw_node_memory_total_bytes", "Host memory of a node.", labels=["node"])
    available = GaugeMetricFamily(
        "llmgw_node_memory_available_bytes", "Host memory of a node that is available.", labels=["node"]
    )
    age = GaugeMetricFamily("llmgw_node_facts_age_seconds", "Age of a node's facts in the snapshot.", labels=["node"])
    for node in nodes:
        for family, value in (
            (total, node.memory_total_bytes),
            (available, node.memory_available_bytes),
            (age, node.facts_age_s),
        ):
            if value is not None:
                family.add_metric([node.name], value)
    yield from (total, available, age)


def _devices(nodes: tuple[NodeView, ...]) -> Metric:
    family = GaugeMetricFamily(
        "llmgw_devices", "Devices by class; blocked: out of placement.", labels=["class", "state"]
    )
    counts = Counter(
        (device.device_class or UNKNOWN, "blocked" if device.blocked_by else "usable")
        for node in nodes
        for device in node.devices or ()
    )
    for (device_class, state), count in sorted(counts.items()):
        family.add_metric([device_class, state], count)
    return family
