# SPDX-License-Identifier: Apache-2.0
"""Makes the facts of scenarios: machines as they report themselves, after the catalogs that were applied to them.

A scenario's recipe begins a `Story` with bare machines, lets catalogs be applied, lets things happen to nodes, and gets
the files of the facts cache. They are compact: what is at its default is left out, as the contract allows.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmgw.catalog.load import load_catalog
from llmgw.fleet.hosts import Host, Stored
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.model.node import NodeState
from llmgw.nodekit import contract
from tests.support.world import World

NOW = 1_760_000_000.0
"""The moment at which every scenario is planned."""
GB = 10**9
_FLAGS = ("llmgw_lost", "llmgw_drained", "llmgw_cordoned")
ENGINES = (
    contract.Engine("llama.cpp", ("/opt/llmgw/engines/llama.cpp/bin/llama-server",), "b6100", runnable=True),
    contract.Engine("sim", ("/opt/llmgw/engines/sim/bin/llmgw-sim",), "0.1.0", runnable=True),
)
MIB = {"h200-141g": 143771, "l40s-45g": 46068, "a100-80g": 81920}


def machine(*gpus: contract.Gpu, memory_gb: int = 64, **more: Any) -> contract.NodeFacts:
    """A node on which nothing runs yet."""
    values: dict[str, Any] = {
        "collected_at": NOW - 30,
        "memory": contract.Memory(memory_gb * GB),
        "filesystems": (contract.Filesystem("/", free_bytes=500 * GB),),
        "gpus": gpus,
        "engines": ENGINES,
        "units": (),
    }
    return contract.NodeFacts(**(values | more))


def cards(node: str, count: int, device_class: str, **more: Any) -> tuple[contract.Gpu, ...]:
    """Equal cards of a node."""
    return tuple(
        contract.Gpu(
            index, f"GPU-{node}-{index}", device_class=device_class, memory_total_mib=MIB[device_class], **more
        )
        for index in range(count)
    )


class Story:
    """What happened to a fleet before the scenario begins."""

    def __init__(self, hosts: tuple[Host, ...], folder: Path, machines: Mapping[str, contract.NodeFacts]) -> None:
        self._folder = folder
        self._without_flags = tuple(
            replace(one, variables={key: value for key, value in one.variables.items() if key not in _FLAGS})
            for one in hosts
        )
        stored = {name: Stored(known) for name, known in machines.items()}
        self.world = World(build_snapshot(self._without_flags, stored, View(NOW)))

    def applied(self, catalog: str = "before.yaml") -> Story:
        """A catalog of the scenario's folder was applied."""
        self.world.apply(load_catalog(self._folder / catalog))
        return self

    def lost(self, name: str) -> Story:
        """A node was lost."""
        self.world.state(name, NodeState.LOST)
        return self

    def files(self, *, endpoints: bool = False) -> dict[str, str]:
        """The facts cache, by file name; `endpoints`: with those of the bundle."""
        found = {}
        for node in self.world.fleet.nodes:
            if node.facts is not None:
                units = tuple(replace(unit, text=None) for unit in node.facts.units or ())
                found[f"{node.name}.json"] = as_json(replace(node.facts, units=units))
        for gateway in self.world.fleet.gateways:
            if gateway.bundle is not None and f"{gateway.name}.json" not in found:
                bundle = gateway.bundle if endpoints else replace(gateway.bundle, endpoints=None)
                facts = contract.GatewayFacts(reachable=True, endpoints=self.endpoints(), bundle=bundle)
                found[f"{gateway.name}.json"] = as_json(contract.NodeFacts(collected_at=NOW - 30, gateway=facts))
        return found

    def endpoints(self, **states: str) -> tuple[contract.EndpointHealth, ...]:
        """What a gateway says of every endpoint: `ready`, or the state given for its node."""
        routes = self.world.routes.routes if self.world.routes else ()
        return tuple(
            contract.EndpointHealth(endpoint.id, states.get(endpoint.node, "ready"))
            for route in routes
            for endpoint in route.endpoints
        )


def out_of_reach(seconds: float, reason: str) -> str:
    """The note of a node that has not answered for so long."""
    return json.dumps({"since": NOW - seconds, "reason": reason, "last": NOW - 30}) + "\n"


def as_json(facts: contract.NodeFacts) -> str:
    """Facts as they lie in the cache, without what says nothing."""
    return json.dumps({"contract_version": facts.contract_version, **_said(facts)}, indent=1) + "\n"


def _said(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = [(one.name, getattr(value, one.name), one.default) for one in dataclasses.fields(value)]
        return {name: _said(part) for name, part, default in fields if part != default}
    return [_said(part) for part in value] if isinstance(value, tuple) else value
