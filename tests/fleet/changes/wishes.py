# SPDX-License-Identifier: Apache-2.0
"""What is asked of a fleet of simulators: services and what the inventory says of hosts, and the files that say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PROFILE = {"model": "pretend", "engine": "sim", "devices": "cpu", "ready_timeout": "30s", "start_timeout": "20s"}


@dataclass(frozen=True, slots=True)
class Service:
    """One service, all of whose replicas are simulators. `argument`: milliseconds to the first token; a change of it
    restarts every replica.
    """

    replicas: int = 1
    argument: int = 20
    memory_gb: float = 0.2
    spread: str | None = None
    priority: int = 0
    max_unavailable: int = 1
    max_surge: int | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """A whole catalog, and the hosts that are cordoned or drained."""

    services: Mapping[str, Service] = field(default_factory=dict)
    cordoned: frozenset[str] = frozenset()
    drained: frozenset[str] = frozenset()

    @property
    def replicas(self) -> int:
        """How many are asked for."""
        return sum(one.replicas for one in self.services.values())


def catalog_document(wish: Wish) -> dict[str, Any]:
    """The catalog as it stands in catalog.yaml."""
    return {
        "version": 1,
        "models": {"pretend": {"path": "/dev/null"}},
        "profiles": {name: _profile(one) for name, one in wish.services.items()},
        "services": {name: _service(name, one) for name, one in wish.services.items()},
        "gateway": {"listen": "0.0.0.0:8080", "probe_interval": "0.5s"},
    }


def _profile(one: Service) -> dict[str, Any]:
    options = {"--load-seconds": "0.2", "--itl-ms": "5", "--ttft-ms": str(one.argument)}
    return PROFILE | {"min_memory_gb": one.memory_gb, "args": [word for pair in options.items() for word in pair]}


def _service(name: str, one: Service) -> dict[str, Any]:
    rollout = {"max_unavailable": one.max_unavailable}
    if one.max_surge is not None:
        rollout["max_surge"] = one.max_surge
    made = {
        "profiles": [name],
        "replicas": one.replicas,
        "priority": one.priority,
        "drain_timeout": "10s",
        "rollout": rollout,
    }
    return made if one.spread is None else made | {"spread": one.spread}


def host_variables(wish: Wish, hosts: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """What the inventory says of every host: two hosts share a rack."""
    return {
        host: {
            "llmgw_labels": {"rack": f"r{number // 2}"},
            "llmgw_cordoned": host in wish.cordoned,
            "llmgw_drained": host in wish.drained,
        }
        for number, host in enumerate(hosts)
    }
