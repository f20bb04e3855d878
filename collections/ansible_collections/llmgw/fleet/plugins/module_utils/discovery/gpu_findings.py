# SPDX-License-Identifier: BSD-2-Clause
"""What is wrong with the cards of a node, from their facts (D3): each finding with a code, a severity and a remedy.

Private to llmgw and pure. A finding's subject is the UUID of the card or MIG instance that it concerns, so that one bad
card takes itself out and not its neighbours.
"""

from __future__ import annotations

from typing import Iterable, Iterator

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding

# Reasons that cost speed because something is wrong; power cap, idle and clock settings are normal.
_THROTTLED = frozenset(
    {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"},
)
# A desktop's share of a card; what draws more is treated like a computation.
_GRAPHICS_MIB = 512
_RESET = "Reset the card when nothing runs on it (nvidia-smi --gpu-reset), or reboot the node."


def judge(gpus: Iterable[contract.Gpu], gone: frozenset[int] = frozenset()) -> tuple[Finding, ...]:
    """All findings about these cards; `gone` are pids that the driver lists and the node's /proc does not."""
    found: list[Finding] = []
    for gpu in gpus:
        found.extend(_memory_errors(gpu))
        found.extend(_remapping(gpu))
        found.extend(_condition(gpu))
        found.extend(_mig(gpu))
        found.extend(_foreign(gpu, gone))
    return tuple(found)


def lost(gpu: contract.Gpu, said: str | None = None) -> Finding:
    """The finding for a card that the driver cannot talk to, known by its PCI address; `said` is its message."""
    return Finding(
        code="gpu-lost",
        severity="block",
        message=f"card {gpu.index} at {gpu.pci_address or 'an unknown address'} does not answer the driver",
        remedy="Look for XIDs in the kernel log; reboot the node. If it comes back lost, have the card serviced.",
        subject=gpu.uuid or gpu.pci_address,
        evidence=(said,) if said else (),
    )


def _memory_errors(gpu: contract.Gpu) -> Iterator[Finding]:
    ecc = gpu.ecc
    if ecc is None:
        return
    if ecc.uncorrected_volatile:
        yield Finding(
            code="ecc-uncorrected",
            severity="block",
            message=f"card {gpu.index} had {ecc.uncorrected_volatile} uncorrected memory errors since driver start",
            remedy=_RESET,
            subject=gpu.uuid,
        )
    elif ecc.uncorrected_aggregate:
        yield Finding(
            code="ecc-history",
            severity="warn",
            message=f"card {gpu.index} had {ecc.uncorrected_aggregate} uncorrected memory errors in its life",
            remedy="Nothing now; replace the card when the number keeps growing.",
            subject=gpu.uuid,
        )
    if ecc.sram_threshold_exceeded:
        yield Finding(
            code="ecc-sram-threshold",
            severity="warn",
            message=f"card {gpu.index} had more uncorrected SRAM errors than its maker tolerates",
            remedy="Have the card serviced.",
            subject=gpu.uuid,
        )


def _remapping(gpu: contract.Gpu) -> Iterator[Finding]:
    remap = gpu.remap
    if remap is None:
        return
    if remap.failed:
        yield Finding(
            code="remap-failed",
            severity="block",
            message=f"card {gpu.index} could not replace a bad memory row",
            remedy="Have the card serviced.",
            subject=gpu.uuid,
        )
    if remap.pending:
        yield Finding(
            code="remap-pending",
            severity="block",
            message=f"card {gpu.index} has a bad memory row that is replaced at the next reset",
            remedy=_RESET,
            subject=gpu.uuid,
        )
    if remap.retired_pending:
        yield Finding(
            code="retirement-pending",
            severity="block",
            message=f"card {gpu.index} has bad memory pages that are retired at the next reset",
            remedy=_RESET,
            subject=gpu.uuid,
        )


def _condition(gpu: contract.Gpu) -> Iterator[Finding]:
    # The driver's word for "nothing to do" is None; words that newer drivers add ask for something.
    if gpu.recovery_action is not None and gpu.recovery_action.lower() != "none":
        yield Finding(
            code="recovery-action",
            severity="block",
            message=f"the driver asks for an action on card {gpu.index}: {gpu.recovery_action}",
            remedy="Take the card or the node out and do what the driver asks for.",
            subject=gpu.uuid,
        )
    throttled = [reason for reason in gpu.throttle_reasons or () if reason in _THROTTLED]
    if throttled:
        yield Finding(
            code="throttled",
            severity="warn",
            message=f"card {gpu.index} is slowed down: {', '.join(throttled)}",
            remedy="Check cooling and power supply.",
            subject=gpu.uuid,
        )
    if gpu.persistence_mode is False:
        yield Finding(
            code="persistence-off",
            severity="warn",
            message=f"card {gpu.index} has persistence mode off: its driver unloads when nothing uses it",
            remedy="Enable nvidia-persistenced.",
            subject=gpu.uuid,
        )


def _mig(gpu: contract.Gpu) -> Iterator[Finding]:
    if gpu.mig_mode and not gpu.mig_instances:
        yield Finding(
            code="mig-empty",
            severity="block",
            message=f"card {gpu.index} is in MIG mode and has no instances: nothing can be placed on it",
            remedy="Create instances (nvidia-smi mig -cgi ... -C) or switch MIG mode off.",
            subject=gpu.uuid,
        )
    if gpu.mig_mode is not None and gpu.mig_pending is not None and gpu.mig_mode != gpu.mig_pending:
        yield Finding(
            code="mig-pending",
            severity="warn",
            message=f"card {gpu.index} turns MIG mode {'on' if gpu.mig_pending else 'off'} at its next reset",
            remedy=_RESET,
            subject=gpu.uuid,
        )
    for instance in gpu.mig_instances:
        if instance.uuid is None:
            yield Finding(
                code="mig-unidentified",
                severity="warn",
                message=f"{gpu.index}/mig{instance.index} has no UUID in any answer of the driver; it cannot be used",
                remedy="Compare nvidia-smi -L with nvidia-smi -q; instances may just have been created.",
                subject=gpu.uuid,
            )


def _foreign(gpu: contract.Gpu, gone: frozenset[int]) -> Iterator[Finding]:
    places = [(f"card {gpu.index}", gpu.uuid, gpu.processes)]
    places += [(f"{gpu.index}/mig{one.index}", one.uuid, one.processes) for one in gpu.mig_instances]
    for place, uuid, processes in places:
        for process in processes or ():
            if process.unit is None and process.used_mib != 0:
                yield _foreign_process(place, uuid, process, gone)


def _foreign_process(place: str, uuid: str | None, process: contract.DeviceProcess, gone: frozenset[int]) -> Finding:
    used = "an unknown amount" if process.used_mib is None else f"{process.used_mib} MiB"
    named = f"process {process.pid} ({process.name or 'name unknown'})"
    if process.pid in gone:
        return Finding(
            code="foreign-memory-unowned",
            severity="warn",
            message=f"{named} holds {used} on {place}, and this node has no such process",
            remedy="It may have just ended, or it runs in a container; if it stays, find it or reset the card.",
            subject=uuid,
        )
    desktop = process.kind == "G" and process.used_mib is not None and process.used_mib < _GRAPHICS_MIB
    return Finding(
        code="foreign-memory",
        severity="info" if desktop else "block",
        message=f"{named}, which llmgw does not own, holds {used} on {place}",
        remedy="Stop it, or keep the card out of llmgw.",
        subject=uuid,
    )
