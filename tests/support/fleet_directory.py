# SPDX-License-Identifier: Apache-2.0
"""A fleet directory as operators have it: inventory, catalog and stored facts of two nodes and a gateway host."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from llmgw.fleet import store
from llmgw.model.node import FleetSnapshot
from llmgw.nodekit import contract
from tests.support.fleets import catalog as catalog_of
from tests.support.fleets import facts, fleet, node, service
from tests.support.world import World

HOSTS = """\
all:
  children:
    fleet:
      hosts:
        n1: {llmgw_address: 10.0.0.1}
        n2: {llmgw_address: 10.0.0.2}
    gateway:
      hosts:
        gw:
"""
CATALOG = """\
version: 1
models:
  smol: {path: /srv/models/smol.gguf}
profiles:
  cpu: {engine: sim, model: smol, devices: cpu}
services:
  chat: {profiles: cpu, replicas: 2}
"""


@dataclass(frozen=True)
class Called:
    """How a call ended."""

    status: int
    out: str
    err: str


class FleetDirectory:
    """hosts.yml, catalog.yaml and facts/ of two nodes and a gateway host."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.facts = path / "facts"
        self.hosts(HOSTS)
        self.catalog(CATALOG)
        for name in ("n1", "n2"):
            self.store(name, facts(name))

    def hosts(self, text: str) -> None:
        (self.path / "hosts.yml").write_text(text, encoding="utf-8")

    def catalog(self, text: str) -> None:
        (self.path / "catalog.yaml").write_text(text, encoding="utf-8")

    def store(self, name: str, known: contract.NodeFacts) -> None:
        store.save(self.facts, name, replace(known, collected_at=time.time()))

    def applied(self, replicas: int = 2) -> FleetSnapshot:
        """The catalog has been applied before: the nodes' facts show it."""
        world = World(fleet(*(replace(node(name), address=f"10.0.0.{name[1]}") for name in ("n1", "n2"))))
        world.apply(catalog_of(service(replicas=replicas)))
        for one in world.fleet.nodes:
            assert one.facts is not None
            self.store(one.name, one.facts)
        bundle = world.fleet.gateways[0].bundle
        self.store("gw", contract.NodeFacts(gateway=contract.GatewayFacts(reachable=True, bundle=bundle)))
        return world.fleet
