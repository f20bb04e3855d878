# SPDX-License-Identifier: Apache-2.0
"""The files of inventory/showcase/facts, as `python -m tests.support.showcase` writes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from llmgw.catalog.load import load_catalog
from llmgw.fleet.hosts import Host, Stored
from llmgw.fleet.inventory import read_inventory
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.nodekit import contract
from tests.support.scenario_facts import as_json
from tests.support.showcase import boxes, rack, troubles
from tests.support.showcase.invented import NOW, between
from tests.support.showcase.judging import judged
from tests.support.showcase.life import at_work
from tests.support.showcase.running import applied_before, running
from tests.support.world import World

FOLDER = Path(__file__).parents[3] / "inventory/showcase"
_FLAGS = ("llmgw_cordoned", "llmgw_drained")


def facts_files(folder: Path = FOLDER) -> dict[str, str]:
    """Everything in the facts cache, by file name."""
    hosts = read_inventory(folder / "hosts.yml")
    machines = boxes.machines(hosts, troubles.UNREAD)
    before = applied_before(load_catalog(folder / "catalog.yaml"))
    world = running(before, build_snapshot(_without_flags(hosts), _stored(machines), View(NOW)))
    seen = {name: _busy(name, known, world) for name, known in machines.items()}
    in_rack = boxes.trays(hosts)
    seen |= {name: rack.since_one_failed(seen[name], name, in_rack) for name in in_rack}
    found = {f"{name}.json": as_json(_as_seen(name, known)) for name, known in seen.items()}
    found |= {f"{host.name}.json": as_json(_gateway(host, world)) for host in hosts if host.gateway}
    found |= {f"{name}.unreachable": _note(*away) for name, away in troubles.AWAY.items()}
    return found | {"at": f"{NOW:.0f}\n"}


def _without_flags(hosts: tuple[Host, ...]) -> tuple[Host, ...]:
    """The hosts before somebody kept replicas away from some."""
    return tuple(
        replace(one, variables={name: value for name, value in one.variables.items() if name not in _FLAGS})
        for one in hosts
    )


def _stored(machines: dict[str, contract.NodeFacts]) -> dict[str, Stored]:
    return {name: Stored(known) for name, known in machines.items()}


def _busy(name: str, bare: contract.NodeFacts, world: World) -> contract.NodeFacts:
    return at_work(replace(bare, units=world.units(name)))


def _as_seen(name: str, busy: contract.NodeFacts) -> contract.NodeFacts:
    """A machine with what runs there, after what happened to it."""
    return judged(troubles.happened(name, busy), troubles.LOST.get(name, {}))


def _gateway(host: Host, world: World) -> contract.NodeFacts:
    bundle = next(one.bundle for one in world.fleet.gateways if one.name == host.name)
    routes = world.routes.routes if world.routes else ()
    endpoints = tuple(
        contract.EndpointHealth(
            endpoint.id,
            "failed" if endpoint.replica in ("agent/1", "whisper/1") else "ready",
            in_flight=between(0, 40, endpoint.id, host.name),
        )
        for route in routes
        for endpoint in route.endpoints
    )
    bundle = None if bundle is None else replace(bundle, endpoints=None)  # every unit is seen, so nobody needs them
    known = contract.GatewayFacts(reachable=True, generation=boxes.GENERATION, endpoints=endpoints, bundle=bundle)
    return boxes.gateway(host, known)


def _note(seconds: float, reason: str) -> str:
    return f'{{"since": {NOW - seconds:.0f}, "reason": "{reason}", "last": {NOW - 20:.0f}}}\n'
