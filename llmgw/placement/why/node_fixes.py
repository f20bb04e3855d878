# SPDX-License-Identifier: Apache-2.0
"""What could be done about a constraint on the node itself: edits of what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from llmgw.capability.versions import too_old
from llmgw.model.node import Device, Node, NodeState
from llmgw.model.why import Cost, Step
from llmgw.nodekit import contract
from llmgw.placement.why.asked import GB, Asked
from llmgw.placement.why.edits import Edit


def open_node(asked: Asked) -> Iterator[Edit]:
    """Take off whatever keeps new replicas away from the node as a whole. Of a node whose facts nobody knows nobody
    knows what it could take.
    """
    node = asked.node
    if node.facts is None or node.facts.units is None or node.state not in (NodeState.OK, NodeState.UNREACHABLE):
        return
    values: dict[str, str | int | float | bool | None] = {}
    kinds, words, hows, flags = [], [], [], []
    if node.state is NodeState.UNREACHABLE:
        kinds, words, hows = ["reach"], ["make {nodes} answer"], ["then `llmgw facts refresh`"]
    for flag, kind, say in (
        (node.drained, "undrain", "end the drain of {nodes}"),
        (node.cordoned, "uncordon", "uncordon {nodes}"),
    ):
        if flag:
            name = "llmgw_drained" if kind == "undrain" else "llmgw_cordoned"
            values[name] = False
            kinds.append(kind)
            words.append(say)
            flags.append(name)
    if flags:
        hows.append(f"{' and '.join(flags)} in the inventory, or what says so on the node")
    step = Step("+".join(kinds), " and ".join(words), values, how="; ".join(hows))
    cost = Cost.NODE_WORK if node.state is NodeState.UNREACHABLE else Cost.SETTING
    yield Edit(step, cost, on_node=lambda one: replace(one, state=NodeState.OK, drained=False, cordoned=False))


def label(asked: Asked) -> Iterator[Edit]:
    """Give the node every label that the profile selects by."""
    wanted = asked.profile.node_selector
    missing = {key: value for key, value in sorted(wanted.items()) if asked.node.labels.get(key) != value}
    told = ", ".join(f"{key}={value}" for key, value in missing.items())
    has = {key: asked.node.labels[key] for key in missing if key in asked.node.labels}
    lost = f"; {_named(has)} of the node is then gone" if has else ""
    caution = f"only if the node really is {told}{lost}"
    step = Step("label", f"label {told} on {{nodes}}", dict(missing), how="llmgw_labels in the inventory")
    yield Edit(
        step,
        Cost.PROMISE,
        harshness=len(has),
        group=f"{told} {lost}",
        on_node=lambda node: replace(node, labels=node.labels | missing),
        caution=caution,
    )


def install(asked: Asked) -> Iterator[Edit]:
    """Put the engine on the node, or mend the one that is there."""
    kind, facts = asked.profile.engine, asked.node.facts
    if facts is None or facts.engines is None:
        return
    there = [engine for engine in facts.engines if engine.kind == kind]
    old = there and any(too_old(kind, one.version, devices=not asked.profile.on_cpu) for one in there)
    words = f"{'update' if old else 'mend' if there else 'install'} {kind} on {{nodes}}"
    how = None if there else "playbook llmgw.fleet.prepare, or llmgw_engine_commands in the inventory"
    how = "llmgw_engine_versions and playbook llmgw.fleet.prepare" if old else how
    engine = contract.Engine(kind, (f"/opt/llmgw/engines/{kind}",), runnable=True)
    step = Step("mend-engine" if there else "install-engine", words, {"engine": str(kind)}, how=how)
    yield Edit(step, Cost.NODE_WORK, on_node=lambda node: _with_engine(node, engine))


def update_driver(asked: Asked) -> Iterator[Edit]:
    """Bring the driver to the CUDA that the engine is built for."""
    facts, needs = asked.node.facts, asked.check.needs
    if facts is None or facts.driver is None or needs is None:
        return
    version = f"{needs:.0f}.0"
    step = Step(
        "driver",
        f"update the driver of {{nodes}} to CUDA {needs:.0f}",
        {"cuda": version},
        asked.check.has,
        needs,
        "CUDA",
    )
    yield Edit(step, Cost.NODE_WORK, group=version, on_node=lambda node: _with_cuda(node, version))


def free_card(asked: Asked) -> Iterator[Edit]:
    """Get strangers off cards, or mend cards that are out of order: only as many as are needed."""
    profile = asked.profile
    for name in profile.devices:
        devices = [device for device in asked.node.devices or () if device.device_class == name]
        lacking = profile.gpus - len(asked.ledger.free_devices(name))
        away = [device for device in devices if device.kept_away_by or device.blocked_by]
        if not 0 < lacking <= len(away):
            continue
        cards = sorted(away, key=lambda device: (bool(device.blocked_by), device.index))[:lacking]
        foreign = all(_foreign_only(device) for device in cards)
        told = "; ".join(f"{device.display_name}: {_first(device).message}" for device in cards)
        verb = "free" if foreign else "mend"
        noun = "card" if len(cards) == 1 else "cards"
        step = Step(
            "foreign-card" if foreign else "mend-card",
            f"{verb} {noun} {', '.join(device.display_name for device in cards)} of {{nodes}} ({told})",
            {"devices": ", ".join(device.uuid for device in cards)},
            profile.gpus - lacking,
            profile.gpus,
            "devices",
            how=_first(cards[0]).remedy,
        )
        uuids = frozenset(device.uuid for device in cards)
        yield Edit(step, Cost.NODE_WORK, harshness=lacking, group=",".join(sorted(uuids)), on_node=_mends(uuids))


def free_disk(asked: Asked) -> Iterator[Edit]:
    """Free disk space on the node."""
    has, needs = asked.check.has, asked.check.needs
    if has is None or needs is None:
        return
    lacking = int(needs - has)
    step = Step("free-disk", f"free {lacking / GB:.0f} GB of disk on {{nodes}}", {}, has, needs, "bytes")
    yield Edit(step, Cost.NODE_WORK, harshness=lacking, on_node=lambda node: _with_disk(node, lacking))


def tell_domain(asked: Asked) -> Iterator[Edit]:
    """Say in which spread domain the node is, where nobody has."""
    spread = asked.service.spread
    if spread is None or spread == "node" or spread in asked.node.labels:
        return
    step = Step("label-domain", f"label {spread} on {{nodes}}", {spread: None}, how="llmgw_labels in the inventory")
    caution = f"say where it really is; it helps only if that {spread} has not got its share yet"
    yield Edit(
        step,
        Cost.PROMISE,
        on_node=lambda node: replace(node, labels=node.labels | {spread: f"of {node.name}"}),
        caution=caution,
    )


def _named(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels.items())


def _first(device: Device) -> contract.Finding:
    return (*device.blocked_by, *device.kept_away_by)[0]


def _foreign_only(device: Device) -> bool:
    return not device.blocked_by and all(finding.code == "foreign-memory" for finding in device.kept_away_by)


def _mends(uuids: frozenset[str]) -> Callable[[Node], Node]:
    def mended(device: Device) -> Device:
        whole = replace(device, blocked_by=(), kept_away_by=(), foreign_used_mib=0)
        return whole if device.uuid in uuids else device

    return lambda node: replace(node, devices=tuple(map(mended, node.devices or ())))


def _with_engine(node: Node, engine: contract.Engine) -> Node:
    if node.facts is None:
        return node
    others = tuple(one for one in node.facts.engines or () if one.kind != engine.kind)
    return replace(node, facts=replace(node.facts, engines=(*others, engine)))


def _with_disk(node: Node, more: int) -> Node:
    if node.facts is None:
        return node
    filesystems = tuple(
        one if one.free_bytes is None else replace(one, free_bytes=one.free_bytes + more)
        for one in node.facts.filesystems or ()
    )
    return replace(node, facts=replace(node.facts, filesystems=filesystems))


def _with_cuda(node: Node, version: str) -> Node:
    if node.facts is None or node.facts.driver is None:
        return node
    return replace(node, facts=replace(node.facts, driver=replace(node.facts.driver, cuda_version=version)))
