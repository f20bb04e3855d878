# SPDX-License-Identifier: Apache-2.0
"""Hard constraints about what cards and drivers can do: compute-capability floors and the CUDA of the driver (C5).

Both read facts alone and keep new replicas away; they move nothing (P1b). Unknown refuses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmgw.capability import device_classes
from llmgw.capability.driver import cuda_major, cuda_needed
from llmgw.capability.shortfall import Shortfall, shortfall
from llmgw.capability.unified_memory import shortage
from llmgw.model.ids import DeviceClass
from llmgw.model.node import Node
from llmgw.model.placement import Rejection
from llmgw.model.replica import ProfileSpec
from llmgw.placement.amounts import told_apart

if TYPE_CHECKING:
    from llmgw.placement.feasibility import Ask
    from llmgw.placement.ledger import Ledger


def capable_classes(profile: ProfileSpec, node: Node, stored: str | None = None) -> tuple[DeviceClass, ...]:
    """The classes of a profile that are not below its floor on this node, in its order of preference. A class that the
    node does not have is among them: nothing speaks against it. `stored`: see `class_shortfall`.
    """
    return tuple(one for one in profile.devices if class_shortfall(profile, node, one, stored) is None)


def class_shortfall(
    profile: ProfileSpec, node: Node, device_class: DeviceClass, stored: str | None = None
) -> Shortfall | None:
    """What of a profile is below its floor on the node's devices of a class: by their own compute capability, else by
    what is known of the class. `stored`: the quantization that the weights themselves ask for, None: none is known.
    """
    devices = [device for device in node.devices or () if device.device_class == device_class]
    known: set[str | None] = {device.compute_capability for device in devices if device.compute_capability is not None}
    if devices and not known:
        known = {device_classes.compute_capability(device_class)}
    found = (shortfall(profile, one, device_class, stored=stored) for one in sorted(known, key=str))
    return next((one for one in found if one is not None), None)


def capability_fits(ask: Ask, ledger: Ledger) -> Rejection | None:
    """Some class of the profile that the node has is not below the floor of what the profile asks for (C5)."""
    profile, node = ask.profile, ledger.node
    there = {device.device_class for device in node.devices or ()}
    short = [class_shortfall(profile, node, one, ask.stored) for one in profile.devices if one in there]
    told = [one for one in short if one is not None]
    if not told or len(told) < len(short):
        return None
    first = told[0]
    message = "; ".join(dict.fromkeys([one.why for one in told[:-1]] + [told[-1].sentence]))
    return Rejection(
        ask.service.name,
        profile.name,
        node.name,
        "capability",
        message,
        float(first.has),
        float(first.needs),
        "compute capability",
    )


def driver_fits(ask: Ask, ledger: Ledger) -> Rejection | None:
    """The driver offers the CUDA that the engine on the node is built for, as far as both are known."""
    profile, node = ask.profile, ledger.node
    if profile.on_cpu or node.facts is None or node.facts.driver is None:
        return None
    engines = [one for one in node.facts.engines or () if one.kind == profile.engine and one.command]
    version = engines[0].version if engines else None
    needs, offered = cuda_needed(profile.engine, version), node.facts.driver.cuda_version
    has = cuda_major(offered)
    if needs is None or has is None or has >= needs:
        return None
    driver = node.facts.driver.driver_version
    message = (
        f"{profile.engine} {version} is built for CUDA {needs}, the driver{f' {driver}' if driver else ''} offers CUDA "
        f"{offered}: update the driver, or install a build for CUDA {has}"
    )
    return Rejection(ask.service.name, profile.name, node.name, "driver", message, has, needs, "CUDA")


def unified_memory_fits(ask: Ask, ledger: Ledger) -> Rejection | None:
    """Where a device's memory is the host's, the engine's share and the host memory that the profile asks for are not
    more than the machine has (C5).
    """
    profile, facts = ask.profile, ledger.node.facts
    host = facts.memory.total_bytes if facts is not None and facts.memory is not None else None
    unified = {one.device_class for one in (facts.gpus or () if facts is not None else ()) if one.unified_memory}
    there = [device.device_class for device in ledger.node.devices or () if device.device_class in profile.devices]
    if host is None or not there or not unified.issuperset(there):
        return None
    found = shortage(profile.engine, profile.memory_utilization, profile.min_memory_bytes, host)
    if found is None:
        return None
    has, needs = found
    there_is, wanted = told_apart(has, needs)
    message = (
        f"its memory is shared with its device: {profile.engine} takes a share of it, which with `min_memory_gb` is "
        f"{wanted} GB, and it has {there_is}: set a lower `memory_utilization`"
    )
    return Rejection(ask.service.name, profile.name, ledger.node.name, "unified-memory", message, has, needs, "bytes")
