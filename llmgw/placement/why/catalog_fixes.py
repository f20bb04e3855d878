# SPDX-License-Identifier: Apache-2.0
"""What could be done about a constraint in the catalog: asking for less, or for something else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from llmgw.model.ids import DeviceClass
from llmgw.model.node import Device
from llmgw.model.replica import ProfileSpec
from llmgw.model.why import Cost, Step
from llmgw.placement.heads import SHARING, heads_of
from llmgw.placement.why.asked import GB, Asked
from llmgw.placement.why.edits import Edit

_PORTS_END = 65535
_NEAR = 0.9
"""Down to this part of what is asked for it is a matter of taste."""


def unselect(asked: Asked) -> Iterator[Edit]:
    """Select nodes by fewer labels."""
    wanted = asked.profile.node_selector
    missing = {key for key, value in wanted.items() if asked.node.labels.get(key) != value}
    left = {key: value for key, value in wanted.items() if key not in missing}
    told = ", ".join(f"{key}={wanted[key]}" for key in sorted(missing))
    step = Step("node-selector", f"take {told} out of node_selector", dict.fromkeys(sorted(missing)), entry=asked.entry)
    yield Edit(
        step,
        Cost.PROMISE,
        harshness=len(missing),
        group=told,
        on_profile=lambda profile: replace(profile, node_selector=left),
        caution=f"only if it may serve where {told} does not hold",
    )


def allow_slow_path(asked: Asked) -> Iterator[Edit]:
    """Let the engine take its slower way on devices below the floor."""
    for field in ("quantization", "kv_cache_dtype"):
        if field not in asked.profile.allow_slow_path:
            fields = tuple(sorted({*asked.profile.allow_slow_path, field}))
            step = Step(
                "slow-path",
                f"allow the slow path of {field}",
                {"allow_slow_path": ", ".join(fields)},
                entry=asked.entry,
            )
            yield Edit(step, Cost.CHANGES, group=field, on_profile=_allows(fields), caution="it is then slower")


def other_class(asked: Asked) -> Iterator[Edit]:
    """Let the profile use another class of devices that has room here."""
    profile = asked.profile
    if profile.on_cpu:
        return
    for name in sorted({device.device_class for device in asked.node.devices or ()} - set(profile.devices)):
        one = next(device for device in asked.node.devices or () if device.device_class == name)
        free = len(asked.ledger.free_devices(name))
        if free < profile.gpus or (one.mig and profile.gpus > 1):
            continue
        step = Step(
            "device-class",
            f"add {name} to the devices",
            {"devices": ", ".join((*profile.devices, name))},
            free,
            profile.gpus,
            "devices",
            entry=asked.entry,
        )
        doubts = [] if _surely_fits(asked, one) else [f"see with `llmgw fit` whether the model fits one {name}"]
        if _heads_may_not_divide(asked):
            doubts.append(f"its attention heads are unknown, and {profile.tensor_parallel} seldom divides them")
        caution = "; ".join(doubts) or None
        yield Edit(step, Cost.SETTING, group=name, on_profile=_adds_class(name), caution=caution)


def fewer_devices(asked: Asked) -> Iterator[Edit]:
    """Serve with fewer devices a replica: the largest tensor-parallel size that has room."""
    profile = asked.profile
    if profile.nodes > 1 or profile.pipeline_parallel > 1:
        return
    free = max((len(asked.ledger.free_devices(name)) for name in profile.devices), default=0)
    heads = heads_of(asked.appetite) if profile.engine in SHARING and profile.tensor_parallel == profile.gpus else None
    whole = heads or profile.gpus
    size = next((size for size in range(min(free, profile.gpus - 1), 0, -1) if whole % size == 0), None)
    if size is None:
        return
    tensor = size if profile.tensor_parallel == profile.gpus else profile.tensor_parallel
    step = Step(
        "fewer-devices",
        f"serve with {size} instead of {profile.gpus} devices",
        {"gpus": size, "tensor_parallel": tensor},
        free,
        profile.gpus,
        "devices",
        entry=asked.entry,
    )
    yield Edit(
        step,
        Cost.CHANGES,
        harshness=profile.gpus / size,
        on_profile=lambda one: replace(one, gpus=size, tensor_parallel=tensor),
        caution="see whether the model fits with `llmgw fit`; running replicas of the profile restart or move",
    )


def other_parts(asked: Asked) -> Iterator[Edit]:
    """The next smaller and the next larger tensor-parallel size that divide the attention heads, with the devices that
    they need.
    """
    profile, heads = asked.profile, heads_of(asked.appetite)
    if heads is None:
        return
    now = profile.tensor_parallel
    sizes = [size for size in range(1, heads + 1) if heads % size == 0 and _adds_up(profile, size)]
    smaller, larger = [size for size in sizes if size < now], [size for size in sizes if size > now]
    for size in (*smaller[-1:], *larger[:1]):
        gpus = 0 if profile.on_cpu else size * profile.pipeline_parallel // profile.nodes
        each = "" if profile.on_cpu else f" and {gpus} device{'s' if gpus > 1 else ''}"
        members = f" on each of {profile.nodes} nodes" if profile.nodes > 1 else ""
        step = Step(
            "fewer-devices" if size < now else "more-devices",
            f"serve with tensor_parallel {size}{each}{members}",
            {"gpus": gpus, "tensor_parallel": size},
            heads,
            size,
            "attention heads",
            entry=asked.entry,
        )
        caution = "see whether the model fits with `llmgw fit`" if size < now else None
        yield Edit(step, Cost.CHANGES, abs(size - now), str(size), on_profile=_cut(gpus, size), caution=caution)


def less_memory(asked: Asked) -> Iterator[Edit]:
    """Ask for as much host memory as the node has for this replica and those of the same profile that it has, or for
    all that wait for a place too.
    """
    has, needs = asked.check.has, asked.check.needs
    if has is None or needs is None:
        return
    for more in sorted({1, asked.ahead + 1}):
        left = (has + asked.alike * needs) / (asked.alike + more)
        yield from _lower(asked, "min_memory_gb", left, lambda profile, left: replace(profile, min_memory_bytes=left))


def less_disk(asked: Asked) -> Iterator[Edit]:
    """Ask for as much free disk as the node has."""
    left = asked.check.has
    yield from _lower(
        asked, "min_free_disk_gb", left or 0.0, lambda profile, left: replace(profile, min_free_disk_bytes=left)
    )


def no_spread(asked: Asked) -> Iterator[Edit]:
    """Do without the spread."""
    words = f"drop the spread by {asked.service.spread}"
    step = Step(
        "spread",
        words,
        {"spread": None},
        asked.check.has,
        asked.check.needs,
        asked.check.unit,
        entry=f"services.{asked.service.name}",
    )
    caution = "more replicas may then be lost at once"
    yield Edit(step, Cost.CHANGES, on_service=lambda service: replace(service, spread=None), caution=caution)


def more_ports(asked: Asked) -> Iterator[Edit]:
    """Widen the range by as many ports as it takes."""
    system = asked.node.facts.system if asked.node.facts else None
    taken = set(system.listening_ports or ()) if system else set()
    low, high = asked.port_range
    end = next((port for port in range(high + 1, _PORTS_END + 1) if port not in taken), None)
    if end is not None:
        step = Step("port-range", f"widen port_range to {low}-{end}", {"port_range": f"{low}-{end}"}, entry="fleet")
        yield Edit(step, Cost.SETTING, harshness=end, port_range=(low, end))


def fewer_others(asked: Asked) -> Iterator[Edit]:
    """One replica fewer of a service that is not more important, if it would give up one that is here."""
    for one in asked.last.get(asked.node.name, ()):
        other = one.service
        step = Step(
            "fewer-replicas",
            f"{other.replicas - 1} instead of {other.replicas} replicas of {other.name}",
            {"replicas": other.replicas - 1},
            entry=f"services.{other.name}",
        )
        caution = f"{one.replica} on {asked.node.name} is stopped"
        yield Edit(step, Cost.TAKES, group=other.name, fewer=other.name, caution=caution, harshness=other.priority)


def _surely_fits(asked: Asked, device: Device) -> bool:
    """Whether a device is expected to have enough memory, as far as that can be reckoned."""
    size = device.memory_total_mib
    found = None if asked.appetite is None else asked.appetite.on(device.device_class, size)
    needs = None if found is None else found.needs
    return found is not None and needs is not None and size is not None and needs.likely <= size * found.share


def _lower(
    asked: Asked, key: str, left_bytes: float, change: Callable[[ProfileSpec, int], ProfileSpec]
) -> Iterator[Edit]:
    has, needs = asked.check.has, asked.check.needs
    left = math.floor(left_bytes / GB * 10) / 10
    if needs is None or left <= 0:
        return
    step = Step(
        key, f"lower {key} from {needs / GB:g} to {left:g}", {key: left}, has, needs, "bytes", entry=asked.entry
    )
    far = left * GB < needs * _NEAR
    yield Edit(
        step,
        Cost.PROMISE if far else Cost.SETTING,
        -left,
        on_profile=lambda profile: change(profile, int(left * GB)),
        caution=f"does the profile ask for {needs / GB:g} GB on purpose?" if far else None,
    )


def _heads_may_not_divide(asked: Asked) -> bool:
    """Whether a size that few models can be cut by is asked for of one whose heads nobody knows."""
    profile = asked.profile
    odd = profile.tensor_parallel & (profile.tensor_parallel - 1)
    return bool(odd) and profile.engine in SHARING and heads_of(asked.appetite) is None


def _adds_up(profile: ProfileSpec, size: int) -> bool:
    """Whether the ranks of that size are spread evenly over the nodes of the profile."""
    return profile.on_cpu or size * profile.pipeline_parallel % profile.nodes == 0


def _cut(gpus: int, size: int) -> Callable[[ProfileSpec], ProfileSpec]:
    return lambda profile: replace(profile, gpus=gpus, tensor_parallel=size)


def _allows(fields: tuple[str, ...]) -> Callable[[ProfileSpec], ProfileSpec]:
    return lambda profile: replace(profile, allow_slow_path=fields)


def _adds_class(name: DeviceClass) -> Callable[[ProfileSpec], ProfileSpec]:
    return lambda profile: replace(profile, devices=(*profile.devices, name))


def one_node(asked: Asked) -> Iterator[Edit]:
    """Serve on one node with as many devices as all members have."""
    profile = asked.profile
    gpus = profile.gpus * profile.nodes
    free = max((len(asked.ledger.free_devices(name)) for name in profile.devices), default=0)
    if profile.nodes == 1 or profile.on_cpu or free < gpus:
        return
    step = Step(
        "one-node",
        f"serve on 1 node with {gpus} devices instead of {profile.nodes} with {profile.gpus}",
        {"nodes": 1, "gpus": gpus},
        free,
        gpus,
        "devices",
        entry=asked.entry,
    )
    yield Edit(
        step,
        Cost.CHANGES,
        group=str(gpus),
        on_profile=lambda one: replace(one, nodes=1, gpus=gpus),
        caution="running replicas of the profile move",
    )
