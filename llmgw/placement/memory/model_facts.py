# SPDX-License-Identifier: Apache-2.0
"""What the fleet knows of each model (P13): its size and architecture from weights that any node holds, and what
engines said of their memory when they started.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from llmgw.capability.memory_habits import habits_of
from llmgw.fleet.weights import held, holds
from llmgw.model.ids import DeviceClass
from llmgw.model.node import FleetSnapshot, Node
from llmgw.model.replica import Catalog, ModelSpec, ProfileSpec
from llmgw.nodekit import contract
from llmgw.placement.memory.span import Span, exactly
from llmgw.placement.memory.weight_bytes import Tensors

_SMALLEST_REST_MIB = 128.0


@dataclass(frozen=True, slots=True)
class Report:
    """What one engine said of one device at its start, and how it was started. `share`: of the device's memory that it
    may take, as its profile in the catalog has it; None where the catalog has that profile no more.
    """

    model: str
    engine: str
    profile: str
    device_class: DeviceClass
    total_mib: int | None
    devices: int
    members: int
    memory: contract.EngineMemory
    share: float | None = None

    @property
    def rest_mib(self) -> float | None:
        """What it left after weights and KV cache, of what it may take; None where that is unknown or senseless."""
        said = self.memory
        if self.total_mib is None or self.share is None or not said.weights_mib or not said.kv_cache_mib:
            return None
        rest = self.total_mib * self.share - said.weights_mib - said.kv_cache_mib
        return rest if rest >= _SMALLEST_REST_MIB else None


@dataclass(frozen=True, slots=True)
class Rests:
    """The least and the most MiB that replicas of one engine left on one class of device."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One model as the fleet knows it. `tensors` None: its size is unknown. `source`: where that is from, in words."""

    tensors: Tensors | None = None
    source: str | None = None
    reports: tuple[Report, ...] = ()
    """Of this model, whatever engine and device."""
    rests: Mapping[tuple[str, str], Rests] = field(default_factory=dict)
    """Of all models, by engine and class of device."""


@dataclass(frozen=True, slots=True)
class _Seen:
    node: str
    weights: contract.Weights


class ModelFacts:
    """The index. Built when it is first asked, in one pass over the fleet's weights and units."""

    def __init__(self, catalog: Catalog, fleet: FleetSnapshot) -> None:
        self._catalog = catalog
        self._fleet = fleet
        self._by_name: dict[str, dict[tuple[object, ...], _Seen]] = {}
        self._complete: dict[tuple[object, ...], bool] = {}
        self._built = False
        self._reports: dict[str, list[Report]] = {}
        self._rests: dict[tuple[str, str], Rests] = {}
        self._known: dict[str, KnownModel] = {}

    def known(self, model: ModelSpec) -> KnownModel:
        """What is known of a model; a model that no node holds has the size that the catalog gives it, if it does."""
        found = self._known.get(model.name)
        if found is None:
            found = self._known[model.name] = self._find(model)
        return found

    def _find(self, model: ModelSpec) -> KnownModel:
        self._build()
        names = {_last(name) for name in (model.hf_id, model.path, (model.hf_id or "").replace("--", "/")) if name}
        near = [seen for name in sorted(names) for seen in self._by_name.get(name, {}).values()]
        mine = _held(model, near)
        architecture = next((seen.weights.architecture for seen in mine if seen.weights.architecture), None)
        sized = [seen for seen in mine if seen.weights.complete is not False and _size(seen.weights)]
        # Where nobody could judge whether they are whole, they are at least so large.
        whole = [seen for seen in sized if seen.weights.complete] or sized
        tensors, source = None, None
        if whole:
            sizes = [_size(seen.weights) or 0 for seen in whole]
            tensors = Tensors(Span(min(sizes), sizes[0], max(sizes)), architecture)
            source = f"weights in {whole[0].weights.path} on {whole[0].node}"
        elif model.size_bytes is not None:
            tensors, source = Tensors(exactly(model.size_bytes), architecture), "the size that the catalog gives"
        return KnownModel(tensors, source, tuple(self._reports.get(model.name, ())), self._rests)

    def _build(self) -> None:
        if self._built:
            return
        self._built = True
        profiles = {str(one.name): one for service in self._catalog.services for one in service.profiles}
        for node in sorted(self._fleet.nodes, key=lambda node: node.name):
            for weights in (node.facts.weights or ()) if node.facts else ():
                self._keep(_Seen(node.name, weights))
            for report in _reports(node, profiles):
                self._reports.setdefault(report.model, []).append(report)
                self._rest(report)

    def _rest(self, report: Report) -> None:
        rest, key = report.rest_mib, (report.engine, str(report.device_class))
        if rest is not None:
            known = self._rests.get(key, Rests(rest, rest))
            self._rests[key] = Rests(min(rest, known.least), max(rest, known.most))

    def _keep(self, seen: _Seen) -> None:
        """Remembers weights once, however many nodes hold the same: the first that are complete."""
        weights = seen.weights
        key = (weights.path, weights.model, weights.repository, weights.revision, weights.refs, _size(weights))
        known = self._complete.get(key)
        if known or (known is False and not weights.complete):
            return
        self._complete[key] = bool(weights.complete)
        for name in {_last(name) for name in (weights.model, weights.repository, weights.path) if name}:
            self._by_name.setdefault(name, {})[key] = seen


def _held(model: ModelSpec, near: Iterable[_Seen]) -> list[_Seen]:
    """Those that are the model's, the best known first. That many nodes have the same name makes it no less clear."""
    unique = {id(seen): seen for seen in near}.values()
    mine = [seen for seen in unique if holds(model, seen.weights)]
    if not mine:
        names = {(seen.weights.model, seen.weights.layout): seen.weights for seen in unique}
        chosen = {(one.model, one.layout) for one in held(model, names.values())}
        mine = [seen for seen in unique if (seen.weights.model, seen.weights.layout) in chosen]
    return sorted(mine, key=_rank)


def _rank(seen: _Seen) -> tuple[bool, bool, bool, str, str]:
    one = seen.weights
    return (not one.complete, one.architecture is None, one.tensor_bytes is None, one.path, seen.node)


def _size(weights: contract.Weights) -> int | None:
    return weights.tensor_bytes or weights.size_bytes


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2]


def _reports(node: Node, profiles: Mapping[str, ProfileSpec]) -> Iterable[Report]:
    """What the units of a node said of the memory of their devices, of those that have one class."""
    devices = {str(device.uuid): device for device in node.devices or ()}
    for unit in (node.facts.units or ()) if node.facts else ():
        there = [devices[uuid] for uuid in unit.devices if uuid in devices]
        if unit.memory_report is None or unit.model is None or unit.engine is None or not there:
            continue
        yield Report(
            model=unit.model,
            engine=unit.engine,
            profile=unit.profile or "",
            device_class=there[0].device_class,
            total_mib=there[0].memory_total_mib,
            devices=len(unit.devices),
            members=unit.members or 1,
            memory=unit.memory_report,
            share=_share(profiles.get(unit.profile or "")),
        )


def _share(profile: ProfileSpec | None) -> float | None:
    if profile is None or profile.memory_utilization is not None:
        return None if profile is None else profile.memory_utilization
    habits = habits_of(profile.engine)
    return None if habits is None else habits.share
