# SPDX-License-Identifier: Apache-2.0
"""The inputs of a decision read from disk: catalog, inventory and the facts cache, all below one fleet directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from llmgw.apply.moment import looked_at
from llmgw.errors import LlmgwError
from llmgw.fleet import store
from llmgw.fleet.hosts import Host, Stored
from llmgw.fleet.inventory import read_inventory
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.fleet.unread import unread_problems
from llmgw.model.node import FleetSnapshot
from llmgw.model.plan import PlanInputs
from llmgw.model.replica import Catalog
from llmgw.plan.codec import plan_inputs

INVENTORY_NAMES = ("hosts.yml", "hosts.yaml", "hosts.ini", "hosts")


@dataclass(frozen=True, slots=True)
class Paths:
    """Where one fleet is described: its inventory file, its catalog, its facts cache."""

    inventory: Path
    catalog: Path
    facts: Path


@dataclass(frozen=True)
class Inputs:
    """Everything `decide` needs, and the errors that cost only a part of it. `declared_lost`: hosts that somebody said
    are lost; `hosts`, `stored`: what the fleet was made from.
    """

    catalog: Catalog
    fleet: FleetSnapshot
    hosts: tuple[Host, ...]
    stored: Mapping[str, Stored]
    problems: tuple[LlmgwError, ...] = ()
    declared_lost: frozenset[str] = frozenset()

    @cached_property
    def digests(self) -> PlanInputs:
        """By what a saved plan is known to be still true. They take time, so they are made only where one is kept."""
        return plan_inputs(self.catalog.digest, self.hosts, self.stored)


def find_paths(inventory: Path, catalog: Path | None = None, facts: Path | None = None) -> Paths:
    """The three paths of a fleet. A directory as inventory means the hosts file in it; catalog and facts default to
    beside it.

    Raises LlmgwError `inventory-missing`.
    """
    if inventory.is_dir():
        found = next((inventory / name for name in INVENTORY_NAMES if (inventory / name).exists()), None)
        if found is None:
            raise LlmgwError(
                "inventory-missing",
                f"there is no {INVENTORY_NAMES[0]} in {inventory}",
                fix="write a starter with `llmgw init`, or name the file with --inventory",
            )
        inventory = found
    elif not inventory.exists():
        raise LlmgwError(
            "inventory-missing",
            f"there is no inventory at {inventory}",
            fix="name one with --inventory, or write a starter with `llmgw init`",
        )
    base = inventory.parent
    return Paths(inventory, catalog or base / "catalog.yaml", facts or base / "facts")


def read_inputs(paths: Paths, now: float, lost: Iterable[str] = ()) -> Inputs:
    """The inputs as they lie on disk at `now` (Unix seconds), or at the moment that the facts are kept for. Raises
    LlmgwError for what makes any decision impossible.
    """
    now = looked_at(paths.facts, now)
    reader = ThreadPoolExecutor(1)
    try:
        # Ansible takes seconds for a thousand hosts, in a process of its own: all else is read meanwhile.
        inventory = reader.submit(read_inventory, paths.inventory)
        from llmgw.catalog.load import load_catalog  # noqa: PLC0415 - importing it takes as long as reading with it

        catalog = load_catalog(paths.catalog)
        known = store.load_all(paths.facts)
        hosts = inventory.result()
    finally:
        reader.shutdown(wait=False)
    stored = {host.name: known.get(host.name) or store.load(paths.facts, host.name) for host in hosts}
    return _inputs(catalog, hosts, stored, now, lost)


def inputs_of(catalog: Catalog, hosts: tuple[Host, ...], facts: Path, now: float, lost: Iterable[str] = ()) -> Inputs:
    """The inputs of a catalog and an inventory that are known already."""
    return _inputs(catalog, hosts, {host.name: store.load(facts, host.name) for host in hosts}, now, lost)


def _inputs(
    catalog: Catalog, hosts: tuple[Host, ...], stored: Mapping[str, Stored], now: float, lost: Iterable[str]
) -> Inputs:
    names = {host.name for host in hosts}
    unknown = sorted(set(lost) - names)
    if unknown:
        raise LlmgwError(
            "unknown-host", f"the inventory has no host {unknown[0]}", fix="see `llmgw facts show` for the names"
        )
    view = View(now, catalog.fleet.lost_after_s, frozenset(lost))
    problems = (*unread_problems(hosts), *(one.error for one in stored.values() if one.error is not None))
    declared = view.declared_lost | {host.name for host in hosts if host.variables.get("llmgw_lost") is True}
    return Inputs(catalog, build_snapshot(hosts, stored, view), hosts, stored, problems, declared)
