# SPDX-License-Identifier: Apache-2.0
"""Which instances stay, which must go elsewhere, which nobody wants, and which replicas are missing (P8)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from llmgw.engines import registry
from llmgw.model.ids import ReplicaId
from llmgw.model.replica import Catalog, ProfileSpec, ServiceSpec
from llmgw.placement.capability import capable_classes
from llmgw.placement.instances import Instance, Part, eviction, preference

_UNKNOWN = ""


@dataclass(slots=True)
class Selection:
    """The instances sorted into what happens to them; `wanted` are the (service, number) to place, higher priority
    first.
    """

    kept: list[tuple[ServiceSpec, Instance, ProfileSpec]] = field(default_factory=list)
    wanted: list[tuple[ServiceSpec, int]] = field(default_factory=list)
    displaced: dict[ReplicaId, tuple[Instance, str]] = field(default_factory=dict)
    surplus: tuple[tuple[Instance, str], ...] = ()
    seen: tuple[Instance, ...] = ()


def select(catalog: Catalog, instances: Sequence[Instance], *, hidden: bool = False) -> Selection:
    """Sort every instance by what the catalog wants of it. `hidden`: there are nodes whose units cannot be seen."""
    selection = Selection(seen=tuple(instances))
    by_service: dict[str, list[Instance]] = {}
    for instance in instances:
        by_service.setdefault(instance.service, []).append(instance)
    surplus: list[tuple[Instance, str]] = []
    for service in sorted(catalog.services, key=lambda one: (-one.priority, one.name)):
        _select_service(service, by_service.pop(service.name, ()), selection, surplus, hidden=hidden)
    orphans = [instance for name in sorted(by_service) for instance in by_service[name]]
    surplus += [(instance, f"the catalog has no service {instance.service}") for instance in orphans]
    selection.surplus = tuple(surplus)
    return selection


def _select_service(
    service: ServiceSpec,
    instances: Iterable[Instance],
    selection: Selection,
    surplus: list[tuple[Instance, str]],
    *,
    hidden: bool,
) -> None:
    stayers: dict[int, Instance] = {}
    leavers: dict[int, tuple[Instance, str]] = {}
    for instance in sorted(instances, key=lambda one: (one.number, preference(one))):
        reason = eviction(instance, hidden=hidden)
        if reason is not None and instance.number not in leavers:
            leavers[instance.number] = (instance, reason)
        elif reason is not None:
            surplus.append((instance, reason))
        elif instance.number in stayers:
            other = stayers[instance.number]
            surplus.append((instance, f"{instance.replica} runs on {other.node.name} too, and newer there"))
        else:
            stayers[instance.number] = instance
    order = sorted(stayers, key=lambda number: stay_key(stayers[number]))
    too_many = f"the catalog asks for {service.replicas} of {service.name}"
    surplus += [(stayers.pop(number), too_many) for number in order[service.replicas :]]
    for number, (instance, reason) in leavers.items():
        if number in stayers:
            surplus.append((instance, f"{reason}; {instance.replica} runs on {stayers[number].node.name}"))
    _fill(
        service, stayers, {number: one for number, one in leavers.items() if number not in stayers}, selection, surplus
    )


def _fill(
    service: ServiceSpec,
    stayers: dict[int, Instance],
    leavers: dict[int, tuple[Instance, str]],
    selection: Selection,
    surplus: list[tuple[Instance, str]],
) -> None:
    missing = service.replicas - len(stayers)
    for number, (instance, reason) in sorted(leavers.items()):
        if missing > 0:
            missing -= 1
            selection.displaced[instance.replica] = (instance, reason)
            selection.wanted.append((service, number))
        else:
            surplus.append((instance, f"{reason}, and the catalog asks for {service.replicas} of {service.name}"))
    taken = set(stayers) | set(leavers)
    fresh = (number for number in range(service.replicas + len(taken)) if number not in taken)
    selection.wanted += [(service, next(fresh)) for _ in range(missing)]
    for number, instance in sorted(stayers.items()):
        profile = _profile(service, instance)
        if profile is None:
            selection.displaced[instance.replica] = (instance, "no profile of the catalog fits its place any more")
            selection.wanted.append((service, number))
        else:
            selection.kept.append((service, instance, profile))


def stay_key(instance: Instance) -> tuple[bool, bool, bool, int]:
    """Instances that stay first when there are too many: those that answer, work and are not cordoned; then the lower
    number.
    """
    cordoned = any(part.node.cordoned for part in instance.parts)
    return (not instance.settled, not instance.working, cordoned, instance.number)


def _profile(service: ServiceSpec, instance: Instance) -> ProfileSpec | None:
    """The profile an instance stays under: its own if the catalog still has it and it fits the devices it holds, else
    the first that fits.
    """
    named = [profile for profile in service.profiles if profile.name == instance.unit.profile]
    return next((profile for profile in (*named, *service.profiles) if _fits(profile, instance)), None)


def _fits(profile: ProfileSpec, instance: Instance) -> bool:
    """Whether a profile could have put the replica where it is: as many members, as many devices, all of one class."""
    if registry.refusal(profile) is not None or profile.nodes != instance.members:
        return False
    return len({_class_of(part, profile) for part in instance.parts} - {_UNKNOWN}) <= 1 and all(
        len(part.unit.devices) == profile.gpus and _class_of(part, profile) is not None for part in instance.parts
    )


def _class_of(part: Part, profile: ProfileSpec) -> str | None:
    """The class of a member's devices, if they are of one and the profile names it; `_UNKNOWN` where nothing is known
    of them, which moves nothing.
    """
    if part.node.devices is None:
        return _UNKNOWN
    held = {device.device_class for device in part.node.devices if device.uuid in part.unit.devices}
    if not held:
        return _UNKNOWN
    one = held.pop()
    return one if not held and one in capable_classes(profile, part.node) else None
