# SPDX-License-Identifier: Apache-2.0
"""Every constraint that one node meets or fails for a replica, with amounts: what `plan --why --node` shows.

What fails is what placement itself says; what is met is said here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from llmgw.engines.members import ports_needed
from llmgw.model.node import Node
from llmgw.model.placement import Rejection
from llmgw.model.replica import ProfileSpec, ServiceSpec
from llmgw.model.why import Check
from llmgw.placement.board import Board
from llmgw.placement.feasibility import Ask, chosen_class, disk_needs
from llmgw.placement.findable import free_for
from llmgw.placement.heads import SHARING, heads_of
from llmgw.placement.ledger import Ledger
from llmgw.placement.memory.device_memory import classes_there

GB = 10**9
_UNKNOWN = "unknown: "
"""How a sentence begins about what could not be seen."""
Met = tuple[str, float | None, float | None, str | None]
"""What a constraint says that is met, has, needs, unit."""


def check_of(rejection: Rejection) -> Check:
    """A rejection as a check that fails."""
    message = rejection.message.removeprefix(f"{rejection.node} ")
    return Check(rejection.constraint, False, message, rejection.has, rejection.needs, rejection.unit)  # noqa: FBT003


def failing(board: Board, service: ServiceSpec, profile: ProfileSpec, node: Node) -> tuple[Check, ...]:
    """Every constraint that keeps one more replica off the node. That devices are enough in number and not usable for
    another reason is told by that reason alone.
    """
    found = tuple(map(check_of, board.rejections(service, profile, node)))
    unfit = any(one.constraint in _UNFIT for one in found)
    told = (_of_classes_there(one, profile, board.ledgers[node.name]) for one in found)
    return tuple(one for one in told if not (unfit and one.constraint == "devices" and not _lacks(one)))


def _lacks(check: Check) -> bool:
    return check.has is None or check.needs is None or check.has < check.needs


def _of_classes_there(check: Check, profile: ProfileSpec, ledger: Ledger) -> Check:
    """What is said of devices, by the classes that the node has of those that the profile names."""
    there = classes_there(profile, ledger.node)
    if check.constraint != "devices" or check.has is None or not there:
        return check
    has = max(len(free_for(profile, ledger, one)) for one in there)
    count = sum(device.device_class in there for device in ledger.node.devices or ())
    needs = f"needs {profile.gpus}"
    out = check.message.partition(needs)[2]
    return replace(check, has=has, message=f"has {has} free of {count} {' or '.join(there)}, {needs}{out}")


def checks(board: Board, service: ServiceSpec, profile: ProfileSpec, node: Node) -> tuple[Check, ...]:
    """What every constraint says of one more replica on the node, in their order; those that ask for nothing here are
    left out.
    """
    ask, ledger = board.ask(service, profile), board.ledgers[node.name]
    refused = failing(board, service, profile, node)
    failed = {one.constraint for one in refused}
    alike = {name for group in _ALIKE if failed & group for name in group}
    met = [one for one in _met(ask, ledger) if one.constraint not in failed | alike]
    order = {name: position for position, name in enumerate(MET)}
    return tuple(sorted([*refused, *met], key=lambda one: order.get(one.constraint, len(order))))


def _met(ask: Ask, ledger: Ledger) -> Iterator[Check]:
    for name, says in MET.items():
        found = says(ask, ledger)
        if found is not None:
            message, has, needs, unit = found
            yield Check(name, True, message, has, needs, unit, known=not message.startswith(_UNKNOWN))  # noqa: FBT003


def _support(ask: Ask, ledger: Ledger) -> Met | None:
    del ledger
    return f"{ask.profile.engine} can serve the profile", None, None, None


def _state(ask: Ask, ledger: Ledger) -> Met | None:
    del ask
    node = ledger.node
    oldest = node.facts_age_s if node.oldest_age_s is None else max(node.oldest_age_s, node.facts_age_s or 0.0)
    age = "" if oldest is None else f", by facts that are {_old(oldest)} old"
    stale = ": run `llmgw facts refresh`" if node.stale else ""
    return f"{node.name} is {node.state.value}{age}{stale}", None, None, None


def _old(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _heads(ask: Ask, ledger: Ledger) -> Met | None:
    """Unknown heads are no constraint, and are said: the engine may refuse to start."""
    del ledger
    parts, heads = ask.profile.tensor_parallel, heads_of(ask.appetite)
    if parts == 1 or ask.profile.engine not in SHARING:
        return None
    if heads is None:
        message = f"{_UNKNOWN}no config.json of {ask.profile.model.name} was seen; {parts} has to divide them"
        return message, None, parts, "attention heads"
    return f"{heads} attention heads, tensor_parallel {parts} divides them", heads, parts, "attention heads"


def _not_kept_away(ask: Ask, ledger: Ledger) -> Met | None:
    del ask
    return (
        None if ledger.node.cordoned or ledger.node.drained else ("is neither cordoned nor drained", None, None, None)
    )


def _labels(ask: Ask, ledger: Ledger) -> Met | None:
    del ledger
    wanted = ", ".join(f"{key}={value}" for key, value in sorted(ask.profile.node_selector.items()))
    return (f"has {wanted}", None, None, None) if wanted else None


def _engine(ask: Ask, ledger: Ledger) -> Met | None:
    engines = (ledger.node.facts.engines or ()) if ledger.node.facts else ()
    found = [one for one in engines if one.kind == ask.profile.engine]
    if not found:
        return None
    version = f" {found[0].version}" if found[0].version else ""
    known = "" if found[0].runnable else ", and nobody has tried whether it runs"
    return f"{ask.profile.engine}{version} is installed{known}", None, None, None


def _devices(ask: Ask, ledger: Ledger) -> Met | None:
    chosen = chosen_class(ask, ledger)
    if chosen is None:
        return None
    free = len(free_for(ask.profile, ledger, chosen))
    return f"{free} x {chosen} free, needs {ask.profile.gpus}", free, ask.profile.gpus, "devices"


def _memory(ask: Ask, ledger: Ledger) -> Met | None:
    needs, has = ask.profile.min_memory_bytes, ledger.unpromised_memory()
    if needs is None:
        return None
    if has is None:
        return f"{_UNKNOWN}its memory, which refuses nothing; needs {needs / GB:.0f} GB", None, needs, "bytes"
    return f"{has / GB:.0f} GB of memory left, needs {needs / GB:.0f}", has, needs, "bytes"


def _disk(ask: Ask, ledger: Ledger) -> Met | None:
    if ask.disk_bytes is None:
        return None
    if ledger.node.name in ask.holders:
        return "the weights are there: no disk is needed", None, None, None
    needs, room = disk_needs(ask.disk_bytes, ask, ledger), ledger.room(ask.profile.model)
    if room is None:
        return f"{_UNKNOWN}its disks, which refuses nothing; needs {needs / GB:.0f} GB", None, needs, "bytes"
    message = f"{room.free_bytes / GB:.0f} GB of disk left on {room.mount_point}, needs {needs / GB:.0f}"
    return message, room.free_bytes, needs, "bytes"


def _spread(ask: Ask, ledger: Ledger) -> Met | None:
    domain, share = ask.tally.domain(ledger.node), ask.tally.share
    if domain is None or share is None:
        return None
    here = ask.tally.domains.get(domain, 0)
    return f"{domain} has {here} of {ask.service.name}, its share is {share}", here, share, "replicas"


def _port(ask: Ask, ledger: Ledger) -> Met | None:
    system = ledger.node.facts.system if ledger.node.facts else None
    if system is None or system.listening_ports is None:
        return f"{_UNKNOWN}which of its ports are taken", None, None, None
    port = ledger.free_port(ports_needed(ask.profile))
    return None if port is None else (f"port {port} is free", None, None, None)


def _topology(ask: Ask, ledger: Ledger) -> Met | None:
    """Unknown topology is no constraint, and is said (P4)."""
    chosen = chosen_class(ask, ledger)
    if chosen is None or ask.profile.gpus < 2:  # noqa: PLR2004 - one device is joined with nothing
        return None
    devices = ledger.devices(chosen)
    if any(one.nvlink_peers is not None or one.numa_node is not None for one in devices):
        return None
    return f"{_UNKNOWN}how its devices are joined; they are taken by index", None, None, None


MET: dict[str, Callable[[Ask, Ledger], Met | None]] = {
    "engine-support": _support,
    "shape": lambda _ask, _ledger: None,
    "node-state": _state,
    "drain": lambda _ask, _ledger: None,
    "cordon": _not_kept_away,
    "labels": _labels,
    "engine": _engine,
    "capability": lambda _ask, _ledger: None,
    "driver": lambda _ask, _ledger: None,
    "unified-memory": lambda _ask, _ledger: None,
    "heads": _heads,
    "class": lambda _ask, _ledger: None,
    "devices": _devices,
    "device-memory": lambda _ask, _ledger: None,
    "topology": _topology,
    "memory": _memory,
    "disk": _disk,
    "spread": _spread,
    "ports": _port,
    "fabric": lambda _ask, _ledger: None,
    "partners": lambda _ask, _ledger: None,
}
"""By constraint, in the order in which they are shown; None where a constraint that is met has nothing to say."""

_UNFIT = frozenset({"capability", "device-memory"})
"""Constraints that make a class of devices unusable, free or not."""

_ALIKE = (frozenset({"class", "devices", *_UNFIT}), frozenset({"node-state", "drain", "cordon"}))
"""Constraints of one matter: where one fails, the others are not said to be met."""
