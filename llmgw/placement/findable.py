# SPDX-License-Identifier: Apache-2.0
"""Free devices that a profile's engine can find: all of them, but for MIG instances that vLLM takes for other cards."""

from __future__ import annotations

from llmgw.capability.mig import vllm_cannot_find
from llmgw.catalog.parallelism import is_mig
from llmgw.model.ids import DeviceClass
from llmgw.model.node import Device
from llmgw.model.replica import ProfileSpec
from llmgw.placement.ledger import Ledger


def free_for(profile: ProfileSpec, ledger: Ledger, device_class: DeviceClass) -> tuple[Device, ...]:
    """The free devices of a class that the engine can find, in placement order."""
    free = ledger.free_devices(device_class)
    if not is_mig(device_class):
        return free
    return tuple(device for device in free if objection(profile, ledger, device) is None)


def free_mask(profile: ProfileSpec, ledger: Ledger, device_class: DeviceClass) -> int:
    """The same as bits over the node's devices."""
    if not is_mig(device_class):
        return ledger.free_mask(device_class)
    return ledger.mask(device.uuid for device in free_for(profile, ledger, device_class))


def objection(profile: ProfileSpec, ledger: Ledger, device: Device) -> str | None:
    """Why the engine cannot find a device, as a sentence (domain.md A6); None when it can."""
    facts = ledger.node.facts
    cards = None if facts is None or facts.gpus is None else len(facts.gpus)
    return vllm_cannot_find(profile.engine, device.index, cards)
