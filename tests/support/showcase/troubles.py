# SPDX-License-Identifier: Apache-2.0
"""What is wrong in the showcase: sick cards, a full disk, a failed engine, a stranger's process, old facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from llmgw.nodekit import contract, unitfile
from tests.support.showcase import cards, rack
from tests.support.showcase.invented import DAY, GB, HOUR, MINUTE, NOW

Facts = contract.NodeFacts
UNREAD = frozenset({"l40s-7"})
"""A new machine that no refresh has reached."""
AWAY = {"l40s-5": (14 * MINUTE, "ssh: connect to host 10.20.4.15 port 22: No route to host")}
"""Nodes that do not answer: since how many seconds, and what ssh says. Gateways reach their engines."""
LOST = {"h100-b3": {6: "GPU is lost"}}
"""What the driver says of cards that fell off the bus, by node and index."""


def happened(name: str, facts: Facts) -> Facts:
    """The facts after what happened to this machine."""
    change = _HAPPENED.get(name)
    return facts if change is None else change(facts)


def _off_the_bus(facts: Facts) -> Facts:
    """Card 6 is gone; systemd starts the engine that used it again and again."""
    gone = _card(facts, 6)
    at = NOW - 2 * HOUR - 11 * MINUTE
    line = f"NVRM: Xid (PCI:{(gone.pci_address or '').removesuffix('.0')}): 79, pid='<unknown>', name=<unknown>, "
    xid = contract.Xid(79, at, line + "GPU has fallen off the bus.", 1)
    remains = contract.Gpu(6, None, gone.name, pci_address=gone.pci_address, xids=(xid,))
    others = cards.without_links_to([gpu for gpu in facts.gpus or () if gpu.index != 6], frozenset({gone.uuid or ""}))
    gpus = tuple(sorted((*others, remains), key=lambda gpu: gpu.index))
    failing = {
        "active_state": "activating",
        "sub_state": "auto-restart",
        "result": "exit-code",
        "main_pid": None,
        "running_digest": None,
        "memory_bytes": None,
        "ready": False,
        "restarts": 391,
        "since": NOW - 4,
    }
    units = tuple(
        replace(unit, **failing) if gone.uuid in unit.devices else unit  # type: ignore[arg-type]
        for unit in facts.units or ()
    )
    return replace(facts, gpus=gpus, units=units)


def _remap_pending(facts: Facts) -> Facts:
    card = _card(facts, 2)
    line = f"NVRM: Xid (PCI:{(card.pci_address or '').removesuffix('.0')}): 63, Row Remapper: New row marked"
    xid = contract.Xid(63, NOW - 3 * DAY, f"{line} for remapping", 1)
    remap = contract.Remap(corrected_rows=0, uncorrected_rows=1, pending=True, failed=False)
    return _with_card(facts, replace(card, remap=remap, xids=(xid,), ecc=_errors(card, uncorrected_aggregate=1)))


def _a_strangers_process(facts: Facts) -> Facts:
    card = _card(facts, 3)
    process = contract.DeviceProcess(48213, "python3", 22318, kind="C")
    busy = replace(
        card, processes=(process,), memory_used_mib=22322, utilization_percent=71, temperature_c=58, throttle_reasons=()
    )
    return _with_card(facts, busy)


def _disk_full_and_hot(facts: Facts) -> Facts:
    filesystems = tuple(
        replace(one, free_bytes=7 * GB if one.mount_point == "/" else 9 * GB) for one in facts.filesystems or ()
    )
    card = replace(_card(facts, 1), temperature_c=88, throttle_reasons=("sw_thermal_slowdown",))
    units = tuple(_failed(unit) if unit.replica == "whisper/1" else unit for unit in facts.units or ())
    free = replace(_card(facts, 3), processes=(), memory_used_mib=4, utilization_percent=0)
    return _with_card(_with_card(replace(facts, filesystems=filesystems, units=units), card), free)


def _failed(unit: contract.ObservedUnit) -> contract.ObservedUnit:
    return replace(
        unit,
        active_state="failed",
        sub_state="failed",
        result="exit-code",
        since=NOW - 7 * HOUR,
        restarts=5,
        main_pid=None,
        memory_bytes=None,
        running_digest=None,
        ready=False,
    )


def _old(facts: Facts) -> Facts:
    at = NOW - 3 * HOUR
    return replace(
        facts,
        collected_at=at,
        system=facts.system and replace(facts.system, clock=at),
        probes=tuple(replace(one, at=at) for one in facts.probes),
    )


def _not_joined(facts: Facts) -> Facts:
    return _with_card(facts, rack.waiting(_card(facts, 3)))


def _memory_error(facts: Facts) -> Facts:
    card = _card(facts, 3)
    return _with_card(facts, replace(card, ecc=_errors(card, uncorrected_volatile=1, uncorrected_aggregate=1)))


def _edited_by_hand(facts: Facts) -> Facts:
    units = tuple(_edited(unit) if unit.replica == "guard/0" else unit for unit in facts.units or ())
    return replace(facts, units=units)


def _edited(unit: contract.ObservedUnit) -> contract.ObservedUnit:
    text = (unit.text or "").replace("LimitNOFILE=65536", "LimitNOFILE=1048576")
    return replace(unit, text=text, actual_text_digest=unitfile.text_digest(text), edited=True)


def _errors(card: contract.Gpu, **more: int) -> contract.Ecc:
    return replace(card.ecc or contract.Ecc(), **more)  # type: ignore[arg-type]


def _card(facts: Facts, index: int) -> contract.Gpu:
    return next(gpu for gpu in facts.gpus or () if gpu.index == index)


def _with_card(facts: Facts, card: contract.Gpu) -> Facts:
    return replace(facts, gpus=tuple(card if gpu.index == card.index else gpu for gpu in facts.gpus or ()))


_HAPPENED: dict[str, Callable[[Facts], Facts]] = {
    "a100-mig-1": _edited_by_hand,
    "a100-pcie-2": _memory_error,
    "gb200-12": _not_joined,
    "h100-a6": _remap_pending,
    "h100-b3": _off_the_bus,
    "l40s-2": _a_strangers_process,
    "l40s-4": _disk_full_and_hot,
    "l40s-6": _old,
}
