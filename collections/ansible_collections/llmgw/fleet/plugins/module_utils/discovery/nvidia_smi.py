# SPDX-License-Identifier: BSD-2-Clause
"""Reads the cards of a machine by nvidia-smi (D1): asks it; reading its answers is for `smi_xml` and `smi_text`.

Private to llmgw.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Mapping, NamedTuple

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gpu_build, gpu_findings
from ansible_collections.llmgw.fleet.plugins.module_utils.host import UNUSABLE, Host, Result
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import smi_text, smi_xml

COMMAND = "nvidia-smi"
# What the kernel driver has bound, whatever user space says.
_BOUND = "/proc/driver/nvidia/gpus"
_QUERY_S = 25.0
_ONE_CARD_S = 5.0
_FOLLOW_UP_S = 10.0
_QUOTE = 300
_WHOLE_DRIVER = frozenset(
    {"driver-not-loaded", "driver-library-mismatch", "nvml-init-failed", "insufficient-permissions", "usage-error"}
)


class _Explained(NamedTuple):
    code: str
    said: str
    remedy: str


_EXPLAINED = {
    "empty": _Explained("nvidia-smi-empty", "printed nothing", "Run nvidia-smi -q on the node."),
    "timeout": _Explained(
        "nvidia-smi-timeout",
        "did not answer in time",
        "Look for XIDs and hung tasks in the kernel log; reboot the node.",
    ),
    "truncated-xml": _Explained(
        "nvidia-smi-truncated", "stopped in the middle of its answer", "Run nvidia-smi -q -x on the node."
    ),
    "usage-error": _Explained("nvidia-smi-usage", "does not know the query", "Install a newer driver."),
    "driver-not-loaded": _Explained(
        "driver-not-loaded", "cannot reach the driver", "Load the module (modprobe nvidia) or install the driver."
    ),
    "driver-library-mismatch": _Explained(
        "driver-library-mismatch",
        "has another version than the loaded driver",
        "Reboot the node, or reload the nvidia modules when nothing uses them.",
    ),
    "nvml-init-failed": _Explained(
        "nvml-init-failed",
        "cannot initialise its library",
        "Check the permissions of /dev/nvidia*; a container that lost its devices must be restarted.",
    ),
    "gpu-lost": _Explained("gpu-lost", "found a card that fell off the bus", "Reboot the node."),
    "gpu-handle-error": _Explained(
        "gpu-handle-error", "cannot talk to a card", "Look for XIDs in the kernel log; reboot the node."
    ),
    "no-devices": _Explained(
        "no-devices",
        "finds no card",
        "Look for XIDs in the kernel log and at the permissions of /dev/nvidia*; on a node without cards remove it.",
    ),
    "insufficient-permissions": _Explained(
        "driver-refuses", "is refused by the driver", "Run discovery as root (become: true)."
    ),
}
_UNREADABLE = _Explained(
    "nvidia-smi-unreadable", "gave an answer that makes no sense", "Run nvidia-smi -q on the node."
)


def read_cards(host: Host, budget_s: float) -> gpu_build.Cards:
    """The cards of this machine, within `budget_s` seconds. Without nvidia-smi and without a bound card there are none.

    Where nvidia-smi gives up because of one card, the others are asked for by their addresses.
    """
    asking = _Asking(host, time.monotonic() + budget_s)
    bound = host.list(_BOUND) or ()
    if host.which(COMMAND) is None:
        return _without_tool(bound)
    answer = asking.smi(_QUERY_S, "-q", "-x")
    report: smi_xml.SmiReport | None = None
    try:
        report = smi_xml.read(answer.stdout)
    except smi_xml.SmiError:
        failure = _failure(answer)
        if failure.condition not in _WHOLE_DRIVER:
            report = _one_by_one(asking, bound)
        if report is None:
            return gpu_build.Cards(None, contract.GpuDriver(source=COMMAND), (_failed(failure, answer),))
    said = _said(answer)
    return _finish(asking, _with_missing(host, report, bound, said), said)


class _Asking(NamedTuple):
    """Calls of nvidia-smi that together end by a deadline (of time.monotonic)."""

    host: Host
    deadline: float

    def smi(self, at_most_s: float, *arguments: str) -> Result:
        """The answer; once the time is over, nothing is asked and the answer is empty."""
        if self.is_over():
            return Result(UNUSABLE, "", "no time left", timed_out=True)
        return self.host.run((COMMAND, *arguments), min(at_most_s, self.deadline - time.monotonic()))

    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self.deadline


def _without_tool(bound: tuple[str, ...]) -> gpu_build.Cards:
    if not bound:
        return gpu_build.Cards(())
    finding = Finding(
        code="nvidia-smi-missing",
        severity="warn",
        message=f"the driver holds {len(bound)} cards and nvidia-smi is not installed: the cards are unknown",
        remedy="Install the driver's utilities (nvidia-smi) of the same version.",
        evidence=bound,
    )
    return gpu_build.Cards(None, None, (finding,))


def _failure(answer: Result) -> smi_text.Failure:
    if answer.timed_out:
        return smi_text.Failure("timeout")
    found = smi_text.failure(answer.stdout + "\n" + answer.stderr)
    return found or smi_text.Failure("truncated-xml" if answer.stdout.lstrip().startswith("<") else "unreadable")


def _failed(failure: smi_text.Failure, answer: Result) -> Finding:
    explained = _EXPLAINED.get(failure.condition, _UNREADABLE)
    return Finding(
        code=explained.code,
        severity="warn",
        message=f"nvidia-smi {explained.said}: the cards of this node are unknown",
        remedy=explained.remedy,
        evidence=(f"exit status {answer.rc}", *_quote(answer.stdout.strip() or answer.stderr.strip())),
    )


def _said(answer: Result) -> dict[str | None, str]:
    """Messages about single cards, by address."""
    around = smi_xml.around(answer.stdout) + "\n" + answer.stderr
    return {smi_xml.pci_address(line.bus_id): line.text for line in smi_text.unreachable_cards(around)}


def _quote(text: str) -> tuple[str, ...]:
    quote = " ".join(text.split())[:_QUOTE]
    return (quote,) if quote else ()


def _one_by_one(asking: _Asking, bound: tuple[str, ...]) -> smi_xml.SmiReport | None:
    """What the cards say when each is asked for by its address.

    None when none of them answers, or when the time did not last for all: a card that was not asked is not lost.
    """
    gpus: list[contract.Gpu] = []
    lost: list[int] = []
    versions: tuple[str | None, str | None] = (None, None)
    for address in bound:
        if asking.is_over():
            return None
        try:
            report = smi_xml.read(asking.smi(_ONE_CARD_S, "-q", "-x", "-i", address).stdout)
        except smi_xml.SmiError:
            continue
        for card in report.gpus[:1]:
            lost.extend([len(gpus)] if report.lost else [])
            gpus.append(replace(card, index=len(gpus)))
            versions = (report.driver_version, report.cuda_version)
    if len(lost) == len(gpus):
        return None
    return smi_xml.SmiReport(versions[0], versions[1], len(bound), tuple(gpus), tuple(lost))


def _with_missing(
    host: Host, report: smi_xml.SmiReport, bound: tuple[str, ...], said: Mapping[str | None, str]
) -> smi_xml.SmiReport:
    """The report with the cards that it leaves out: those that the driver holds, and those that a message is about.

    All are then indexed in the order of their addresses, which is the driver's.
    """
    answered = {card.pci_address: card for card in report.gpus}
    held = {smi_xml.pci_address(address) for address in bound} | set(said)
    left_out = {address for address in held if address not in answered and not _is_excluded(host, address)}
    if not left_out or None in answered:
        return report
    dead = {report.gpus[index].pci_address for index in report.lost} | left_out
    gpus = tuple(
        replace(answered.get(address) or contract.Gpu(0, None, pci_address=address), index=index)
        for index, address in enumerate(sorted(str(address) for address in {*answered, *left_out}))
    )
    return replace(report, gpus=gpus, lost=tuple(card.index for card in gpus if card.pci_address in dead))


def _is_excluded(host: Host, address: str | None) -> bool:
    """Whether the administrator told the driver to leave a card alone."""
    information = host.read(f"{_BOUND}/{address}/information") or b""
    return re.search(rb"^(?:GPU Excluded|Blacklisted)\s*:\s*Yes", information, re.MULTILINE) is not None


def _finish(asking: _Asking, report: smi_xml.SmiReport, said: Mapping[str | None, str]) -> gpu_build.Cards:
    host = asking.host
    listed: tuple[smi_text.ListedGpu, ...] = ()
    if any(
        instance.uuid is None or instance.profile is None for card in report.gpus for instance in card.mig_instances
    ):
        listed = smi_text.listing(asking.smi(_FOLLOW_UP_S, "-L").stdout)
    capabilities: dict[str, str] = {}
    if report.gpus:
        query = asking.smi(_FOLLOW_UP_S, "--query-gpu=uuid,compute_cap", "--format=csv,noheader")
        capabilities = smi_text.compute_capabilities(query.stdout)
    gpus = gpu_build.finish(
        report.gpus, listed, capabilities, lambda pid: gpu_build.owning_unit(host.read(f"/proc/{pid}/cgroup"))
    )
    unowned = {process.pid for card in gpus for _uuid, process in gpu_build.processes_on(card) if process.unit is None}
    gone = frozenset(pid for pid in unowned if not host.exists(f"/proc/{pid}"))
    lost = [gpu_findings.lost(gpus[index], said.get(gpus[index].pci_address)) for index in report.lost]
    driver = contract.GpuDriver(COMMAND, None, report.driver_version, report.cuda_version)
    return gpu_build.Cards(gpus, driver, (*lost, *gpu_findings.judge(gpus, gone)))
