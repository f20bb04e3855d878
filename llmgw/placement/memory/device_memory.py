# SPDX-License-Identifier: Apache-2.0
"""The hard constraint that weights and one request fit the devices' memory (P13, P1).

It refuses only what cannot be: when even the lowest estimate is above what the device gives. Unknown refuses nothing,
and what runs is moved by none of it (P1b).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from llmgw.model.ids import DeviceClass
from llmgw.model.node import Node
from llmgw.model.placement import Rejection
from llmgw.model.replica import ProfileSpec, ServiceSpec
from llmgw.placement.amounts import told_apart
from llmgw.placement.memory.estimate import Estimate, estimate
from llmgw.placement.memory.model_facts import KnownModel

if TYPE_CHECKING:
    from llmgw.placement.ledger import Ledger

_MIB_PER_GIB = 1024
_FEW_GIB = 10
_NO_SIZE = -1


@dataclass(frozen=True, slots=True)
class Shortage:
    """Memory that a device of a class does not have: MiB that it gives, and the least that is needed."""

    has: float
    needs: float
    message: str


@dataclass(slots=True)
class Appetite:
    """What one profile needs of a device's memory, remembered by class and size: it is asked for every node."""

    profile: ProfileSpec
    known: KnownModel
    _estimates: dict[tuple[DeviceClass, int], Estimate | None] = field(default_factory=dict)
    _shortages: dict[tuple[DeviceClass, int], Shortage | None] = field(default_factory=dict)

    def on(self, device_class: DeviceClass, total_mib: int | None) -> Estimate | None:
        """The estimate for a device of that class and size."""
        key = (device_class, _NO_SIZE if total_mib is None else total_mib)
        if key not in self._estimates:
            self._estimates[key] = estimate(self.profile, self.known, total_mib, device_class)
        return self._estimates[key]

    def shortage(self, device_class: DeviceClass, total_mib: int | None) -> Shortage | None:
        """Why a device surely has too little memory; None when it may do, and when too little is known."""
        if total_mib is None:
            return None
        key = (device_class, total_mib)
        if key not in self._shortages:
            self._shortages[key] = self._short(device_class, total_mib)
        return self._shortages[key]

    def longest(self, device_class: DeviceClass, total_mib: int | None) -> int | None:
        """The longest context that is expected to fit; None when it is unknown, or when nothing fits."""
        found = self.on(device_class, total_mib)
        if found is None or total_mib is None:
            return None
        architecture = self.known.tensors.architecture if self.known.tensors else None
        span = found.longest(total_mib, architecture.max_position if architecture else None)
        return int(span.likely) if span is not None and span.likely > 0 else None

    def _short(self, device_class: DeviceClass, total_mib: int) -> Shortage | None:
        found = self.on(device_class, total_mib)
        if found is None or found.least is None:
            return None
        has = total_mib * found.most
        if found.least <= has:
            return None
        digits = 0 if has >= _FEW_GIB * _MIB_PER_GIB else 1
        has_gib, needs_gib = told_apart(has, found.least, _MIB_PER_GIB, digits=digits)
        held = self._held(found)
        message = f"needs at least {needs_gib} GiB a device for {held}, {device_class} gives {has_gib}"
        return Shortage(has, found.least, message)

    def _held(self, found: Estimate) -> str:
        """What it needs that for."""
        if found.kv is None or not found.must_hold:
            return "its weights alone"
        count = "one request" if found.sequences == 1 else f"{found.sequences} requests"
        return f"weights and {count} of {found.tokens} tokens"


class Hungry(Protocol):
    """What this constraint reads of an ask."""

    @property
    def service(self) -> ServiceSpec:
        """The service."""

    @property
    def profile(self) -> ProfileSpec:
        """How it would be served."""

    @property
    def appetite(self) -> Appetite | None:
        """What that needs; None when nothing is known of the model."""


def device_memory_fits(ask: Hungry, ledger: Ledger) -> Rejection | None:
    """Some class of the profile that the node has may have enough memory on each device."""
    if ask.appetite is None or ask.profile.on_cpu:
        return None
    there = classes_there(ask.profile, ledger.node)
    short = [class_shortage(ask.appetite, ledger.node, one) for one in there]
    told = [one for one in short if one is not None]
    if not told or len(told) < len(short):
        return None
    best = min(told, key=lambda one: (one.needs - one.has, one.message))
    message = "; ".join(one.message for one in told)
    return Rejection(
        ask.service.name,
        ask.profile.name,
        ledger.node.name,
        "device-memory",
        message,
        round(best.has),
        round(best.needs),
        "MiB",
    )


def classes_there(profile: ProfileSpec, node: Node) -> tuple[DeviceClass, ...]:
    """The classes of a profile that the node has, in its order of preference."""
    there = {device.device_class for device in node.devices or ()}
    return tuple(one for one in profile.devices if one in there)


def class_shortage(appetite: Appetite, node: Node, device_class: DeviceClass) -> Shortage | None:
    """Why no device of a class on this node has enough memory; None when one may, and for a class it does not have."""
    sizes = [device.memory_total_mib for device in node.devices or () if device.device_class == device_class]
    known = [size for size in sizes if size is not None]
    if not sizes or len(known) < len(sizes):
        return None
    return appetite.shortage(device_class, max(known))
