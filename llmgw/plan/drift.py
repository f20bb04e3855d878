# SPDX-License-Identifier: Apache-2.0
"""What is not as it was last applied (R2, D14): told from the nodes alone, by what units say of themselves.

A change of the catalog is no drift: a unit is compared with its own header and with what its process was started with,
never with what is wanted now. What is wanted decides only whether an apply puts it right. What is unknown is no drift,
and a replica that is gone without a trace leaves nothing to tell it by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from llmgw.model.ids import DeviceId, NodeName, ReplicaId
from llmgw.model.node import Device, FleetSnapshot, Node, NodeState
from llmgw.model.plan import ActionKind, Drift
from llmgw.nodekit import contract, unitchange
from llmgw.plan.diff import Change
from llmgw.plan.drift_weights import gone_weights

EDITED, MISSING, EXTRA, STOPPED = "edited", "missing", "extra", "stopped"
OLDER, RELOAD, DISABLED = "older", "reload", "disabled"
FOREIGN_DEVICE, FOREIGN_ENGINE, WEIGHTS_GONE = "foreign-device", "foreign-engine", "weights-gone"
KINDS = (
    EDITED,
    MISSING,
    EXTRA,
    STOPPED,
    OLDER,
    RELOAD,
    DISABLED,
    FOREIGN_DEVICE,
    FOREIGN_ENGINE,
    WEIGHTS_GONE,
)
_SUSPECT = frozenset({"foreign-memory", "foreign-memory-unowned"})
"""Findings of a device whose memory somebody else holds; those of a desktop's share are mere information."""
_Found = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a plan does with units, each by node and name. `surplus`: those that nobody asks for, with their replica;
    `stays_on`: by replica that the catalog asks for, where it will be.
    """

    written: frozenset[tuple[str, str]]
    removed: frozenset[tuple[str, str]]
    surplus: Mapping[tuple[str, str], ReplicaId]
    stays_on: Mapping[ReplicaId, tuple[NodeName, ...]]


def drift_of(
    fleet: FleetSnapshot, changes: Iterable[Change], withheld: Collection[ReplicaId] = ()
) -> tuple[Drift, ...]:
    """All drift of the nodes that are not lost, sorted by node, subject and kind.

    `changes` are those of the plan: what they write anew or remove is mended. `withheld`: replicas whose changes are
    not carried out because a rollout is refused; what nobody asks for is removed all the same.
    """
    changes = tuple(changes)
    wanted = _wanted(changes, withheld)
    nodes = {node.name: node for node in fleet.nodes if node.state is not NodeState.LOST and node.facts is not None}
    found = [one for node in nodes.values() for one in (*_of_units(node, wanted), *_of_strangers(node))]
    for change in changes:
        if change.assignment is not None:
            for node_name, model, sentence in gone_weights(change.assignment, nodes):
                found.append(
                    Drift(WEIGHTS_GONE, node_name, model, sentence, mended=False, replica=change.action.replica)
                )
    return tuple(sorted(set(found), key=lambda one: (one.node, one.subject, one.kind, one.replica or "")))


def _wanted(changes: Iterable[Change], withheld: Collection[ReplicaId]) -> _Wanted:
    written: set[tuple[str, str]] = set()
    removed: set[tuple[str, str]] = set()
    surplus: dict[tuple[str, str], ReplicaId] = {}
    stays_on: dict[ReplicaId, tuple[NodeName, ...]] = {}
    for change in changes:
        if change.action.kind is ActionKind.STOP or change.action.replica not in withheld:
            written.update((unit.node, unit.name) for unit in change.units)
            removed.update(change.removes)
        if change.assignment is not None:
            stays_on[change.action.replica] = change.action.nodes
        if change.action.kind is ActionKind.STOP and change.instance is not None:
            surplus |= {(part.node.name, part.unit.name): change.action.replica for part in change.instance.parts}
    return _Wanted(frozenset(written), frozenset(removed), surplus, stays_on)


def _of_units(node: Node, wanted: _Wanted) -> Iterator[Drift]:
    for unit in (node.facts.units or ()) if node.facts else ():
        key = (node.name, unit.name)
        mended = node.state is NodeState.OK and (key in wanted.written or key in wanted.removed)
        replica = ReplicaId(unit.replica) if unit.replica is not None else None
        # Of a unit that should not be there it does not matter what else is the matter with it.
        found = tuple(_not_ours(node, unit, wanted)) or (*_of_file(unit), *_of_process(unit))
        for kind, sentence in found:
            yield Drift(kind, node.name, unit.name, sentence, mended, replica)


def _of_file(unit: contract.ObservedUnit) -> Iterator[_Found]:
    """What differs in the unit's file, or in what systemd knows of it."""
    if unit.actual_text_digest is None:
        if unitchange.is_running(unit):
            yield MISSING, f"the file of {unit.name} is gone, and it still runs"
        return
    if unit.edited and unit.actual_text_digest != unit.text_digest:
        yield EDITED, f"{unit.name} was edited by hand"
    elif unit.edited:
        yield EDITED, f"a drop-in changes {unit.name}"
    if unit.needs_reload:
        yield RELOAD, f"systemd has not read {unit.name} since it was written"
    if unit.enabled is False:
        yield DISABLED, f"{unit.name} is not enabled: it would not start with the machine"


def _of_process(unit: contract.ObservedUnit) -> Iterator[_Found]:
    """A unit that is there and does not run, or runs something else than its file says."""
    if unit.active_state is None or unit.actual_text_digest is None:
        return
    if not unitchange.is_running(unit):
        yield STOPPED, f"{unit.name} {_state(unit)}"
    elif unit.running_digest is not None and unit.running_digest != unit.process_digest:
        yield OLDER, f"{unit.name} runs something older than its file: it was not restarted since that was written"


def _state(unit: contract.ObservedUnit) -> str:
    """`has failed (oom-kill) after 3 restarts: the kernel ended it`."""
    if unit.sub_state == "auto-restart":
        word = "waits for its next restart"
    elif unit.active_state == "failed":
        word = "has failed"
    elif unit.active_state == "deactivating":
        word = "is being stopped"
    elif unit.active_state == "inactive" and unit.result == "success":
        return f"was stopped (result success){_at(unit.since if unit.state_since is None else unit.state_since)}"
    else:
        word = "does not run"
    result = f" ({unit.result})" if unit.result not in {None, "success"} else ""
    restarts = f" after {unit.restarts} restart{'' if unit.restarts == 1 else 's'}" if unit.restarts else ""
    said = unit.reason if unit.reason and unit.reason != "it does not run" else None
    return f"{word}{result}{restarts}{f': {said}' if said else ''}"


def _at(moment: float | None) -> str:
    """` at 2026-03-02 14:03 UTC`; nothing for what is unknown or no time of a calendar."""
    try:
        return "" if moment is None else f" at {datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, OSError, ValueError):
        return ""


def _not_ours(node: Node, unit: contract.ObservedUnit, wanted: _Wanted) -> Iterator[_Found]:
    """A unit that no apply has written there, or a second copy of a replica."""
    key = (node.name, unit.name)
    replica = wanted.surplus.get(key)
    if replica is not None and replica in wanted.stays_on:
        yield EXTRA, f"{unit.name} is a second copy: {replica} is on {', '.join(wanted.stays_on[replica])}"
    elif replica is not None and unit.generation is None:
        yield EXTRA, f"{unit.name} is of no replica that the catalog asks for, and no apply is known to have written it"
    elif replica is None and unit.actual_text_digest is None and not unitchange.is_running(unit):
        if key not in wanted.written:
            yield EXTRA, f"{unit.name} has no file any more, and systemd remembers that it failed"
    elif replica is None and key not in wanted.written and not _names_a_replica(unit):
        yield EXTRA, f"{unit.name} names no replica"


def _names_a_replica(unit: contract.ObservedUnit) -> bool:
    service, _, number = (unit.replica or "").rpartition("/")
    return bool(service) and number.isascii() and number.isdigit() and len(number) <= len("999999999")


def _of_strangers(node: Node) -> Iterator[Drift]:
    """Devices whose memory somebody else holds, and engines that run outside llmgw. Neither is ever killed (D14)."""
    facts = node.facts
    if facts is None:
        return
    engines = {one.pid for one in facts.foreign_engines or ()}
    held = {uuid: tuple(ones) for uuid, ones in _strangers(facts)}
    names = {device.uuid: device for device in node.devices or ()}
    suspect = {one.subject for one in facts.findings if one.code in _SUSPECT and one.severity != "info"}
    holders = {DeviceId(uuid): unit for unit in facts.units or () for uuid in unit.devices}
    for device in node.devices or ():
        others = [one for one in held.get(device.uuid, ()) if one.pid not in engines]
        if others and device.uuid in suspect:
            unit = holders.get(device.uuid)
            replica = ReplicaId(unit.replica) if unit is not None and unit.replica is not None else None
            beside = f", beside {replica}" if replica is not None else ""
            sentence = f"device {_named(device)} has memory that llmgw does not own{beside}: {_who(others)}"
            yield Drift(FOREIGN_DEVICE, node.name, device.display_name, sentence, mended=False, replica=replica)
    for engine in facts.foreign_engines or ():
        where = ", ".join(_on(engine.pid, uuid, names, held) for uuid in engine.devices)
        sentence = f"{engine.name} (process {engine.pid}) runs outside llmgw{f' on {where}' if where else ''}"
        yield Drift(FOREIGN_ENGINE, node.name, f"process {engine.pid}", sentence, mended=False)


def _strangers(facts: contract.NodeFacts) -> Iterator[tuple[str, list[contract.DeviceProcess]]]:
    """By device the processes that no llmgw unit owns and that hold memory there, by pid."""
    for gpu in facts.gpus or ():
        for uuid, processes in ((gpu.uuid, gpu.processes), *((one.uuid, one.processes) for one in gpu.mig_instances)):
            if uuid is not None:
                others = [one for one in processes or () if one.unit is None and one.used_mib != 0]
                yield uuid, sorted(others, key=lambda one: (one.pid, one.name or ""))


def _who(processes: Iterable[contract.DeviceProcess]) -> str:
    """`process 4711 (python3) with 20480 MiB`."""
    return ", ".join(f"process {one.pid} ({one.name or 'name unknown'}) with {_mib(one.used_mib)}" for one in processes)


def _mib(used: int | None) -> str:
    return "an unknown amount" if used is None else f"{used} MiB"


def _named(device: Device) -> str:
    return f"{device.display_name} ({device.device_class})"


def _on(
    pid: int,
    uuid: str,
    names: Mapping[DeviceId, Device],
    held: Mapping[str, tuple[contract.DeviceProcess, ...]],
) -> str:
    """`device 0 (h200-141g) with 20480 MiB`."""
    device = names.get(DeviceId(uuid))
    own = next((one for one in held.get(uuid, ()) if one.pid == pid), None)
    return f"device {uuid if device is None else _named(device)}{f' with {_mib(own.used_mib)}' if own else ''}"
