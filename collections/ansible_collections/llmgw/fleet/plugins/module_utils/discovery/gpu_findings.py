# SPDX-License-Identifier: BSD-2-Clause
"""What is wrong with the cards of a node, from their facts (D3): each finding with a code, a severity and a remedy.

Private to llmgw and pure. A finding's subject is the UUID of the card or MIG instance that it concerns, so that one bad
card takes itself out and not its neighbours. A blocking finding takes a device out of placement and moves what runs on
it (P1b); so what does not hurt that which runs already only warns. What the node's set-up does to several cards at once
is told once, with the node as its subject and the cards as evidence.
"""

from __future__ import annotations

from typing import Iterable, Iterator, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import (
    gpu_fabric_findings,
    gpu_process_findings,
    gpu_recovery,
    shared_findings,
)

# Reasons that cost speed because something is wrong, with where to look; power cap, idle and clock settings are normal.
_THROTTLED = {
    "hw_power_brake_slowdown": "Check the power supplies and their cables: the server told the card to slow down.",
    "hw_thermal_slowdown": "Check fans, air flow and inlet temperature: the card is too hot.",
    "sw_thermal_slowdown": "Check fans, air flow and inlet temperature: the card is at its highest temperature.",
    "hw_slowdown": "Check cooling and power supply.",
}
_SERVICE = "Have the card serviced."


def judge(gpus: Iterable[contract.Gpu], gone: frozenset[int] = frozenset()) -> tuple[Finding, ...]:
    """All findings about cards that answer; `gone` are pids that the driver lists and the node's /proc does not."""
    cards = tuple(gpu for gpu in gpus if gpu.uuid is not None or gpu.name is not None)
    found: list[Finding] = []
    for gpu in cards:
        found.extend(_identity(gpu, cards))
        found.extend(_memory_errors(gpu))
        found.extend(_remapping(gpu))
        found.extend(_condition(gpu))
        found.extend(_mig(gpu))
        found.extend(gpu_process_findings.judge(gpu, gone))
        found.extend(gpu_fabric_findings.judge(gpu))
    found.extend(_persistence(cards))
    found.extend(gpu_fabric_findings.judge_node(cards))
    return tuple(found)


def lost(gpu: contract.Gpu, said: str | None = None) -> Finding:
    """The finding for a card that the driver cannot talk to, known by its address; `said` is the driver's message."""
    words = (said or "").lower()
    evidence = (said,) if said else ()
    subject = gpu.uuid or gpu.pci_address
    card = f"card {gpu.index} at {gpu.pci_address or 'an unknown address'}"
    if "permission" in words:
        # What cannot be seen may run well.
        remedy = "Run discovery as root (become: true), and look at the permissions of /dev/nvidia*."
        return Finding(
            "gpu-refused", "warn", f"the driver tells this user nothing about {card}", remedy, subject, evidence
        )
    remedy = "Look for XIDs in the kernel log; reboot the node. If it comes back lost, have the card serviced."
    if "reset" in words or "restart" in words:
        remedy = f"{gpu_recovery.reset(gpu)} If that fails, reboot the node."
    return Finding("gpu-lost", "block", f"{card} does not answer the driver", remedy, subject, evidence)


def _identity(gpu: contract.Gpu, cards: Sequence[contract.Gpu]) -> Iterator[Finding]:
    if gpu.uuid is None:
        yield Finding(
            code="uuid-unknown",
            severity="block",
            message=f"card {gpu.index} has no UUID in any answer of the driver: it cannot be given to an engine",
            remedy="Compare nvidia-smi -L with nvidia-smi -q on the node.",
            subject=gpu.pci_address,
        )
    elif sum(other.uuid == gpu.uuid for other in cards) > 1:
        same = ", ".join(str(other.index) for other in cards if other.uuid == gpu.uuid)
        yield Finding(
            code="uuid-duplicate",
            severity="block",
            message=f"cards {same} have the same UUID: an engine cannot be given one of them",
            remedy="Give every virtual machine's card an identity of its own, or have the card serviced.",
            subject=gpu.uuid,
            evidence=(gpu.pci_address,) if gpu.pci_address else (),
        )
    if gpu.device_class is None:
        missing = "name" if gpu.name is None else "memory"
        yield Finding(
            code="class-unknown",
            severity="warn",
            message=f"the driver does not tell the {missing} of card {gpu.index}: it has no class, so no profile fits",
            remedy="Run nvidia-smi -q on the node; a newer driver may know the card.",
            subject=gpu.uuid or gpu.pci_address,
        )


def _memory_errors(gpu: contract.Gpu) -> Iterator[Finding]:
    ecc = gpu.ecc or contract.Ecc()
    if ecc.uncorrected_volatile:
        yield Finding(
            code="ecc-uncorrected",
            severity="block",
            message=f"card {gpu.index} had {_errors(ecc.uncorrected_volatile)} since the driver started",
            remedy=gpu_recovery.reset(gpu),
            subject=gpu.uuid,
        )
    elif ecc.uncorrected_aggregate:
        yield Finding(
            code="ecc-history",
            severity="warn",
            message=f"card {gpu.index} had {_errors(ecc.uncorrected_aggregate)} in its life",
            remedy="Nothing now; replace the card when the number keeps growing.",
            subject=gpu.uuid,
        )
    if ecc.sram_threshold_exceeded:
        yield Finding(
            code="ecc-sram-threshold",
            severity="warn",
            message=f"card {gpu.index} had more uncorrected SRAM errors than its maker tolerates",
            remedy=_SERVICE,
            subject=gpu.uuid,
        )
    for instance in gpu.mig_instances:
        if instance.ecc and instance.ecc.uncorrected_volatile:
            errors = _errors(instance.ecc.uncorrected_volatile)
            yield Finding(
                code="ecc-uncorrected",
                severity="block",
                message=f"{gpu.index}/mig{instance.index} had {errors} since the driver started",
                remedy=f"Stop what runs on the card's instances. {gpu_recovery.reset(gpu)}",
                subject=instance.uuid or gpu.uuid,
            )


def _errors(count: int) -> str:
    return "1 uncorrected memory error" if count == 1 else f"{count} uncorrected memory errors"


def _remapping(gpu: contract.Gpu) -> Iterator[Finding]:
    remap = gpu.remap or contract.Remap()
    for wrong, code, message, remedy in (
        (remap.failed, "remap-failed", "could not replace a bad memory row", _SERVICE),
        (remap.pending, "remap-pending", "has a bad memory row that is replaced at the next reset", None),
        (remap.retired_pending, "retirement-pending", "has bad memory pages that are retired at the next reset", None),
    ):
        if wrong:
            yield Finding(
                code=code,
                severity="block",
                message=f"card {gpu.index} {message}",
                remedy=remedy or gpu_recovery.reset(gpu),
                subject=gpu.uuid,
            )


def _condition(gpu: contract.Gpu) -> Iterator[Finding]:
    action = gpu_recovery.wanted(gpu)
    if action is not None:
        yield Finding(
            code="recovery-action",
            severity="block",
            message=f"the driver asks for an action on card {gpu.index}: {action}",
            remedy=gpu_recovery.remedy(gpu),
            subject=gpu.uuid,
        )
    throttled = [reason for reason in _THROTTLED if reason in (gpu.throttle_reasons or ())]
    if throttled:
        heat = "" if gpu.temperature_c is None else f" at {gpu.temperature_c} C"
        yield Finding(
            code="throttled",
            severity="warn",
            message=f"card {gpu.index} is slowed down{heat}: {', '.join(throttled)}",
            remedy=_THROTTLED[throttled[0]],
            subject=gpu.uuid,
        )
    # An idle card lowers the speed of its lanes, never their number.
    if gpu.pcie_width is not None and gpu.pcie_width_max is not None and gpu.pcie_width < gpu.pcie_width_max:
        yield Finding(
            code="pcie-width",
            severity="warn",
            message=f"card {gpu.index} uses {gpu.pcie_width} of its {gpu.pcie_width_max} PCIe lanes",
            remedy="Seat the card or its riser again, and look for PCIe errors in the kernel log (journalctl -k).",
            subject=gpu.uuid,
        )


def _mig(gpu: contract.Gpu) -> Iterator[Finding]:
    chosen = gpu_recovery.named(gpu)
    if gpu.mig_mode and not gpu.mig_instances:
        yield Finding(
            code="mig-empty",
            severity="block",
            message=f"card {gpu.index} is in MIG mode and has no instances: nothing can be placed on it",
            remedy=f"Create instances (nvidia-smi mig -i {chosen} -lgip lists profiles, -cgi PROFILE -C creates one) "
            f"or switch MIG mode off (nvidia-smi -i {chosen} -mig 0).",
            subject=gpu.uuid,
        )
    if gpu.mig_mode is not None and gpu.mig_pending is not None and gpu.mig_mode != gpu.mig_pending:
        turns = "on, and the whole card goes" if gpu.mig_pending else "off, and its instances go"
        back = f"Or take it back: nvidia-smi -i {chosen} -mig {int(gpu.mig_mode)}."
        yield Finding(
            code="mig-pending",
            severity="warn",
            message=f"card {gpu.index} turns MIG mode {turns}, at its next reset",
            remedy=f"{gpu_recovery.reset(gpu)} {back}",
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


def _persistence(cards: Sequence[contract.Gpu]) -> Iterator[Finding]:
    off = [gpu for gpu in cards if gpu.persistence_mode is False]
    yield from shared_findings.together(
        off,
        cards,
        "persistence-off",
        lambda which: (
            f"persistence mode is off on {which}: the driver unloads when nothing uses it, which is slow and "
            "may undo settings such as MIG mode"
        ),
        "Enable the driver's service: systemctl enable --now nvidia-persistenced.",
    )
