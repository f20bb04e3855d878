# SPDX-License-Identifier: Apache-2.0
"""The device classes that `llmgw fit` tries: all that are known by name, those of a fleet, or those that are named."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence

from llmgw.capability.device_classes import MEMORY_MIB, KnownClass, known_class
from llmgw.errors import LlmgwError
from llmgw.model.ids import DeviceClass
from llmgw.model.node import Device, FleetSnapshot
from llmgw.model.replica import Catalog
from llmgw.placement.memory.fit import Offer

_PER_NODE = {"gb200-186g": 4, "gb300-278g": 4, "gh200-96g": 1}
_USUAL = 8


def offers(names: Sequence[str], fleet: FleetSnapshot | None, per_node: int | None) -> tuple[Offer, ...]:
    """The classes to try, the smallest memory first. Raises LlmgwError for a name that says nothing."""
    seen = _of_fleet(fleet) if fleet is not None else {}
    if names:
        meant = (name if name in seen or _says_memory(name) else _whole_name(name, fleet) for name in names)
        found = [seen[name] if name in seen else _by_name(name, seen) for name in dict.fromkeys(meant)]
    elif fleet is not None:
        found = list(seen.values())
    else:
        found = [_by_name(name, seen) for name in MEMORY_MIB]
    chosen = [one if per_node is None else _with_cards(one, per_node) for one in found]
    return tuple(sorted(chosen, key=lambda one: (one.memory_mib, one.device_class)))


def _says_memory(name: str) -> bool:
    known = known_class(name)
    return known is not None and known.memory_mib is not None


def _whole_name(text: str, fleet: FleetSnapshot | None) -> str:
    """The class that a prefix such as `h200` means, of the fleet's own first. Raises LlmgwError with near names."""
    from llmgw.whatif.classes import class_named

    return class_named(text, Catalog(()), fleet or FleetSnapshot(()))


def _by_name(name: str, seen: Iterable[str]) -> Offer:
    known = known_class(name)
    if known is None or known.memory_mib is None:
        names = [*seen, *MEMORY_MIB]
        near = difflib.get_close_matches(name, names, n=1)
        why = f"nothing is known of the memory of device class {name}"
        meant = f"did you mean {near[0]}? " if near else ""
        fix = f"{meant}Known are {', '.join(sorted(names))}, and MIG classes of these such as h100-80g-mig-3g.40gb"
        raise LlmgwError("unknown-class", why, fix=fix)
    return Offer(
        DeviceClass(name),
        known.memory_mib,
        known.compute_capability,
        memory_estimated=known.memory_estimated,
        mig=known.mig,
        nvlink=_linked(known),
        per_node=_PER_NODE.get(name, _USUAL),
    )


def _linked(known: KnownClass) -> bool | None:
    """Whether cards may be joined by NVLink; None for what is no CUDA device, and has links of its own."""
    return None if known.compute_capability is None else known.product.nvlink is not None and not known.mig


def _of_fleet(fleet: FleetSnapshot) -> dict[str, Offer]:
    """The classes of a fleet, with the least memory that one of them has, and the most that are in one node."""
    devices: dict[str, list[Device]] = {}
    most: Counter[str] = Counter()
    for node in fleet.nodes:
        here = Counter(str(device.device_class) for device in node.devices or ())
        for name, count in here.items():
            most[name] = max(most[name], count)
        for device in node.devices or ():
            devices.setdefault(device.device_class, []).append(device)
    found: dict[str, Offer] = {}
    for name, ones in devices.items():
        sizes = [one.memory_total_mib for one in ones if one.memory_total_mib is not None]
        if sizes:
            capability = min((one.compute_capability for one in ones if one.compute_capability), default=None)
            linked = any(one.nvlink_peers for one in ones)
            mig = any(one.mig for one in ones)
            found[name] = Offer(DeviceClass(name), min(sizes), capability, mig=mig, nvlink=linked, per_node=most[name])
    return found


def _with_cards(offer: Offer, per_node: int) -> Offer:
    return Offer(
        offer.device_class,
        offer.memory_mib,
        offer.compute_capability,
        offer.memory_estimated,
        offer.mig,
        offer.nvlink,
        per_node,
    )
