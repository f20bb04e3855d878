# SPDX-License-Identifier: Apache-2.0
"""Hard constraints: one function each, answering with a rejection and by how much it failed (P1).

All of them are admission-only: they keep new replicas away and move nothing (P1b). What evicts is in
`instances.eviction`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from llmgw.capability.versions import too_old
from llmgw.catalog.parallelism import is_mig
from llmgw.engines import registry
from llmgw.engines.members import ports_needed
from llmgw.model.ids import DeviceClass, NodeName
from llmgw.model.node import Device, NodeState
from llmgw.model.placement import Rejection
from llmgw.model.replica import ProfileSpec, ServiceSpec
from llmgw.placement.amounts import told_apart
from llmgw.placement.capability import capability_fits, capable_classes, driver_fits, unified_memory_fits
from llmgw.placement.findable import free_for, objection
from llmgw.placement.heads import heads_divide
from llmgw.placement.ledger import Ledger
from llmgw.placement.memory.device_memory import Appetite, class_shortage, device_memory_fits
from llmgw.placement.tally import Tally


@dataclass(frozen=True, slots=True)
class Ask:
    """One replica's wish: a service by one of its profiles, and what the fleet knows of both.

    `holders`: nodes on which the weights are, or on a filer that they mount (P3). `classes` remembers by signature of a
    node which classes of the profile may serve there.
    """

    service: ServiceSpec
    profile: ProfileSpec
    tally: Tally
    holders: frozenset[NodeName] = frozenset()
    appetite: Appetite | None = None
    """What the profile needs of a device's memory."""
    disk_bytes: int | None = None
    """What a member needs of a disk where the weights are not; None: nothing, or nobody knows."""
    stored: str | None = None
    """The quantization that the weights themselves ask of the engine; None: none is known."""
    constraints: tuple[Constraint, ...] = ()
    """Of the constraints that read promises, those that the ask can fail, devices apart (`asked`)."""
    classes: dict[int, tuple[DeviceClass, ...]] = field(default_factory=dict)
    failing: dict[int, tuple[Constraint, ...]] = field(default_factory=dict)
    ranks: dict[Hashable, float | None] = field(default_factory=dict)
    """What the board found the place worth on a node of some shape in some state."""
    groups: dict[int, list[Any]] = field(default_factory=dict)
    """Groups of nodes with room for a member each, by the board's version."""


Constraint = Callable[[Ask, Ledger], Rejection | None]


def rejections(ask: Ask, ledger: Ledger, *, first: bool = False) -> tuple[Rejection, ...]:
    """Every constraint that fails on this node (with `first` only the first one); empty when one member fits."""
    return tuple(islice(_failing(ask, ledger), 1 if first else None))


def failing(ask: Ask, ledger: Ledger) -> tuple[Constraint, ...]:
    """The constraints that only read facts and fail on this node, and on all others of its signature."""
    known = ask.failing.get(ledger.signature)
    if known is None:
        known = tuple(constraint for constraint in STATIC if constraint(ask, ledger) is not None)
        ask.failing[ledger.signature] = known
    return known


def _failing(ask: Ask, ledger: Ledger) -> Iterator[Rejection]:
    for constraint in (*failing(ask, ledger), *DYNAMIC):
        rejection = constraint(ask, ledger)
        if rejection is not None:
            yield rejection


def usable_classes(ask: Ask, ledger: Ledger) -> tuple[DeviceClass, ...]:
    """The classes of the profile that may serve it on this node, in its order of preference."""
    known = ask.classes.get(ledger.signature)
    if known is None:
        node, appetite = ledger.node, ask.appetite
        known = ask.classes[ledger.signature] = tuple(
            one
            for one in capable_classes(ask.profile, node, ask.stored)
            if appetite is None or class_shortage(appetite, node, one) is None
        )
    return known


def chosen_class(ask: Ask, ledger: Ledger) -> DeviceClass | None:
    """The first class of the profile's preference with enough free devices here; None on CPU or when none has."""
    return next((one for one in usable_classes(ask, ledger) if has_free(ask, ledger, one)), None)


def has_enough(ask: Ask, ledger: Ledger) -> bool:
    """Whether a node has enough working devices of one class for a member, free or not."""
    return ask.profile.on_cpu or any(
        len(ledger.devices(one)) >= ask.profile.gpus for one in usable_classes(ask, ledger)
    )


def is_large_enough(ask: Ask, ledger: Ledger) -> bool:
    """Whether a node on which nothing runs would have the host memory and the disk that a member needs."""
    memory, disk = ask.profile.min_memory_bytes, ask.disk_bytes
    has, most = ledger.total_memory, ledger.most_disk()
    if disk is None or most is None or ledger.node.name in ask.holders:
        return memory is None or has is None or has >= memory
    return (memory is None or has is None or has >= memory) and most >= disk_needs(disk, ask, ledger)


def has_free(ask: Ask, ledger: Ledger, device_class: DeviceClass) -> bool:
    """Whether enough devices of a class are free for one member, and the class may serve it."""
    free = free_for(ask.profile, ledger, device_class)
    return device_class in usable_classes(ask, ledger) and len(free) >= ask.profile.gpus


def _no(ask: Ask, ledger: Ledger, constraint: str, message: str) -> Rejection:
    return Rejection(ask.service.name, ask.profile.name, ledger.node.name, constraint, message)


def _short(ask: Ask, ledger: Ledger, constraint: str, message: str, amount: tuple[float, float, str]) -> Rejection:
    has, needs, unit = amount
    return Rejection(ask.service.name, ask.profile.name, ledger.node.name, constraint, message, has, needs, unit)


def engine_supported(ask: Ask, ledger: Ledger) -> Rejection | None:
    """The engine can serve the profile at all (C5)."""
    reason = registry.refusal(ask.profile)
    return None if reason is None else _no(ask, ledger, "engine-support", reason)


def shape_adds_up(ask: Ask, ledger: Ledger) -> Rejection | None:
    """Ranks and devices are equally many, and a replica on MIG has one instance (C5, P6); validation refuses it too."""
    profile = ask.profile
    ranks = profile.tensor_parallel * profile.pipeline_parallel * profile.data_parallel
    devices = profile.gpus * profile.nodes
    if ranks not in (1, devices) and not profile.on_cpu:
        message = (
            f"tensor_parallel {profile.tensor_parallel} x pipeline_parallel {profile.pipeline_parallel}"
            f"{f' x data_parallel {profile.data_parallel}' if profile.data_parallel > 1 else ''} is {ranks}, "
            f"gpus {profile.gpus} x nodes {profile.nodes} is {devices}"
        )
        return _short(ask, ledger, "shape", message, (devices, ranks, "devices"))
    slices = [name for name in profile.devices if is_mig(name)]
    if slices and devices > 1:
        return _short(
            ask, ledger, "shape", f"{slices[0]} is a MIG class: a replica has one instance", (1, devices, "devices")
        )
    return None


def node_usable(ask: Ask, ledger: Ledger) -> Rejection | None:
    """The node answers, and tells its units."""
    node = ledger.node
    reasons = {
        NodeState.LOST: "is lost",
        NodeState.UNREACHABLE: "does not answer now",
        NodeState.FROZEN: "is left alone in this run",
        NodeState.UNSEEN: "has no facts yet: run `llmgw facts refresh`",
    }
    if node.state in reasons:
        return _no(ask, ledger, "node-state", f"{node.name} {reasons[node.state]}")
    if node.facts is None or node.facts.units is None:
        return _no(
            ask, ledger, "node-state", f"{node.name} could not tell its units: see its findings in `llmgw facts show`"
        )
    return None


def not_drained(ask: Ask, ledger: Ledger) -> Rejection | None:
    """Nobody drains the node."""
    return _no(ask, ledger, "drain", f"{ledger.node.name} is drained") if ledger.node.drained else None


def not_cordoned(ask: Ask, ledger: Ledger) -> Rejection | None:
    """Nobody keeps new replicas away from the node."""
    return _no(ask, ledger, "cordon", f"{ledger.node.name} is cordoned") if ledger.node.cordoned else None


def labels_match(ask: Ask, ledger: Ledger) -> Rejection | None:
    """The node has every label the profile selects."""
    lacking = []
    for label, wanted in sorted(ask.profile.node_selector.items()):
        seen = ledger.node.labels.get(label)
        if seen != wanted:
            has = "has no such label" if seen is None else f"has {label}={seen}"
            lacking.append(f"needs label {label}={wanted}, {has}")
    return _no(ask, ledger, "labels", "; ".join(lacking)) if lacking else None


def engine_installed(ask: Ask, ledger: Ledger) -> Rejection | None:
    """The engine is on the node and answers. A node that could not tell takes nothing new: its units would be written
    for a guess.
    Where there are no facts at all `node_usable` has said so.
    """
    facts = ledger.node.facts
    if facts is None:
        return None
    if facts.engines is None:
        return _no(
            ask,
            ledger,
            "engine",
            f"{ledger.node.name} could not tell its engines: see its findings in `llmgw facts show`",
        )
    found = [engine for engine in facts.engines if engine.kind == ask.profile.engine]
    if not found:
        how = "see playbook llmgw.fleet.prepare and llmgw_engine_commands"
        return _no(ask, ledger, "engine", f"{ask.profile.engine} is not installed ({how})")
    if all(engine.runnable is False for engine in found):
        return _no(ask, ledger, "engine", f"{ask.profile.engine} does not run: {found[0].reason or 'no reason given'}")
    old = too_old(ask.profile.engine, found[0].version, devices=not ask.profile.on_cpu)
    return None if old is None else _no(ask, ledger, "engine", old)


def devices_free(ask: Ask, ledger: Ledger) -> Rejection | None:
    """Enough free and healthy devices of one class."""
    profile = ask.profile
    if profile.on_cpu or ledger.node.facts is None or chosen_class(ask, ledger) is not None:
        return None
    wanted = " or ".join(profile.devices)
    if ledger.node.devices is None:
        return _no(ask, ledger, "devices", f"needs {profile.gpus} x {wanted}, the node's devices are unknown")
    # Where no class may serve it, the constraint that says so tells it, and free ones are not what is lacking.
    classes = usable_classes(ask, ledger) or profile.devices
    best = max(len(free_for(profile, ledger, device_class)) for device_class in classes)
    there = [device for device in ledger.node.devices if device.device_class in classes]
    if best >= profile.gpus:
        return None
    if not any(device.device_class in profile.devices for device in ledger.node.devices):
        seen = ", ".join(sorted({device.device_class for device in ledger.node.devices})) or "no device"
        return _short(ask, ledger, "class", f"needs {wanted}, has {seen}", (0, profile.gpus, "devices"))
    present = {device.device_class for device in there}
    classes_there = " or ".join(name for name in profile.devices if name in present) or wanted
    message = f"has {best} free of {len(there)} {classes_there}, needs {profile.gpus}{_out_of_order(there)}"
    lost = [objection(profile, ledger, one) for name in classes for one in ledger.free_devices(name)]
    message += next((f"; {why}" for why in lost if why is not None), "")
    return _short(ask, ledger, "devices", message, (best, profile.gpus, "devices"))


def _out_of_order(devices: Iterable[Device]) -> str:
    """Which devices are out and why, those of one cause together."""
    causes: dict[str, list[tuple[str, str]]] = {}
    for device in devices:
        findings = (*device.blocked_by, *device.kept_away_by)
        if findings:
            causes.setdefault(findings[0].code, []).append((device.display_name, findings[0].message))
    return "".join(
        f"; device {ones[0][0]} is out: {ones[0][1]}"
        if len(ones) == 1
        else f"; devices {', '.join(name for name, _ in ones)} are out, the first one because {ones[0][1]}"
        for ones in causes.values()
    )


def memory_fits(ask: Ask, ledger: Ledger) -> Rejection | None:
    """Enough host memory that nobody was promised; unknown memory is not small (P2)."""
    needs, has = ask.profile.min_memory_bytes, ledger.unpromised_memory()
    if needs is None or has is None or has >= needs:
        return None
    has = max(0, has)
    left, wanted = told_apart(has, needs)
    promised = " left" if ledger.memory_is_promised() else ""
    message = f"has {left} GB of memory{promised}, needs {wanted}"
    return _short(ask, ledger, "memory", message, (has, needs, "bytes"))


def disk_fits(ask: Ask, ledger: Ledger) -> Rejection | None:
    """Enough disk that nobody was promised for weights that must be fetched; a node without storage facts is unknown,
    not full (D11), and weights that are there need nothing.
    """
    if ask.disk_bytes is None or ledger.node.name in ask.holders:
        return None
    needs, room = disk_needs(ask.disk_bytes, ask, ledger), ledger.room(ask.profile.model)
    if room is None or room.free_bytes >= needs:
        return None
    has = max(0, room.free_bytes)
    left, wanted = told_apart(has, needs)
    message = f"has {left} GB of free disk on {room.mount_point}, needs {wanted}"
    return _short(ask, ledger, "disk", message, (has, needs, "bytes"))


def disk_needs(wanted: int, ask: Ask, ledger: Ledger) -> int:
    """Bytes that are still to come here of those that are wanted."""
    return max(0, wanted - ledger.begun(ask.profile.model))


def spread_holds(ask: Ask, ledger: Ledger) -> Rejection | None:
    """No spread domain gets more than its even share of the service's replicas."""
    share = ask.tally.share
    if share is None:
        return None
    domain = ask.tally.domain(ledger.node)
    if domain is None:
        return _no(ask, ledger, "spread", f"is spread by {ask.service.spread}, the node has no such label")
    here = ask.tally.domains.get(domain, 0)
    if here < share:
        return None
    message = f"{domain} has {here} of {ask.service.name} already, its share is {share}"
    return _short(ask, ledger, "spread", message, (here, share, "replicas"))


def port_free(ask: Ask, ledger: Ledger) -> Rejection | None:
    """As many ports of the range in a row are free as a member of the replica takes."""
    count = ports_needed(ask.profile)
    if ledger.free_port(count) is not None:
        return None
    what = "no port" if count == 1 else f"no {count} ports in a row"
    return _no(ask, ledger, "ports", f"{what} of the range {'is' if count == 1 else 'are'} free")


STATIC: tuple[Constraint, ...] = (
    engine_supported,
    shape_adds_up,
    node_usable,
    not_drained,
    not_cordoned,
    labels_match,
    engine_installed,
    capability_fits,
    driver_fits,
    unified_memory_fits,
    heads_divide,
    device_memory_fits,
)
"""What only reads facts: the answer is the same for all nodes of one signature, whatever is placed."""

DYNAMIC: tuple[Constraint, ...] = (devices_free, memory_fits, disk_fits, spread_holds, port_free)
"""What also reads promises."""


def asked(service: ServiceSpec, profile: ProfileSpec, disk_bytes: int | None) -> tuple[Constraint, ...]:
    """The constraints that read promises and that a replica can fail, devices apart: what it does not ask for holds."""
    idle = {
        devices_free,
        *((memory_fits,) if profile.min_memory_bytes is None else ()),
        *((disk_fits,) if disk_bytes is None else ()),
        *((spread_holds,) if service.spread is None else ()),
    }
    return tuple(constraint for constraint in DYNAMIC if constraint not in idle)


CONSTRAINTS: tuple[Constraint, ...] = STATIC + DYNAMIC
