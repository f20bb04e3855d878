# SPDX-License-Identifier: BSD-2-Clause
"""Why nvidia-smi did not tell of the cards, and what to do about it (D1, D15).

Private to llmgw and pure. Its words say more than its exit status, which is asked where the words are not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import smi_error, smi_xml

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Result

UNREADABLE = "unreadable"
GARBLED = frozenset({"truncated-xml", "empty", UNREADABLE})
"""Conditions of an answer that may be right in another form."""
WHOLE_DRIVER = frozenset(
    {
        "driver-not-loaded",
        "driver-library-mismatch",
        "nvml-init-failed",
        "nvml-missing",
        "insufficient-permissions",
        "usage-error",
    }
)
"""Conditions in which asking for single cards ends in the same way."""
_QUOTE = 300


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
    "nvml-missing": _Explained(
        "nvml-missing", "cannot find its library", "Install the driver's libraries (libnvidia-ml) of the same version."
    ),
    "gpu-lost": _Explained("gpu-lost", "found a card that fell off the bus", "Reboot the node."),
    "gpu-handle-error": _Explained(
        "gpu-handle-error", "cannot talk to a card", "Look for XIDs in the kernel log; reboot the node."
    ),
    "gpu-power-cable": _Explained(
        "gpu-power-cable", "finds a card without enough power", "Check the power cables of the cards."
    ),
    "gpu-interrupts": _Explained(
        "gpu-interrupts",
        "finds a card whose interrupts do not arrive",
        "Look for interrupt errors in the kernel log; check the machine's firmware settings.",
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
_OTHERWISE = _Explained("nvidia-smi-unreadable", "gave an answer that makes no sense", "Run nvidia-smi -q on the node.")
# Exit statuses as the manual of nvidia-smi lists them.
_STATUS = {
    4: "insufficient-permissions",
    8: "gpu-power-cable",
    9: "driver-not-loaded",
    10: "gpu-interrupts",
    12: "nvml-missing",
    15: "gpu-lost",
}
_CORRUPTED = 14


def condition(answer: Result) -> str:
    """Why an answer is of no use: a word of kind `error`, or timeout, unreadable, or one that the exit status tells."""
    if answer.timed_out:
        return "timeout"
    said = smi_error.read(f"{answer.stdout}\n{answer.stderr}").condition
    if said is None or said in GARBLED:
        said = _STATUS.get(answer.rc, said)
    return said or ("truncated-xml" if smi_xml.is_xml(answer.stdout) else UNREADABLE)


def finding(why: str, answer: Result) -> Finding:
    """The finding about a node whose cards stay unknown."""
    explained = _EXPLAINED.get(why, _OTHERWISE)
    return Finding(
        code=explained.code,
        severity="warn",
        message=f"nvidia-smi {explained.said}: the cards of this node are unknown",
        remedy=explained.remedy,
        evidence=evidence(answer),
    )


def other_form(why: str, answer: Result) -> Finding:
    """The finding about a node whose cards are known from the text form alone."""
    explained = _EXPLAINED.get(why, _OTHERWISE)
    return Finding(
        code="nvidia-smi-text-form",
        severity="info",
        message=f"nvidia-smi -q -x {explained.said}: the cards were read from nvidia-smi -q",
        remedy="Run nvidia-smi -q -x on the node; a process whose name breaks the XML may be running.",
        evidence=evidence(answer),
    )


def remark(answer: Result) -> tuple[Finding, ...]:
    """What the exit status says about a card although the answer can be read."""
    if answer.rc == _CORRUPTED:
        message = "nvidia-smi finds the information area (infoROM) of a card corrupted"
        remedy = "Have the card serviced when errors come with it; its serial number and error history may be wrong."
        return (Finding("inforom-corrupted", "warn", message, remedy, evidence=evidence(answer, messages_only=True)),)
    explained = _EXPLAINED.get(_STATUS.get(answer.rc, ""))
    if explained is None or explained.code not in {"gpu-power-cable", "gpu-interrupts"}:
        return ()
    said = evidence(answer, messages_only=True)
    return (Finding(explained.code, "warn", f"nvidia-smi {explained.said}", explained.remedy, evidence=said),)


def evidence(answer: Result, *, messages_only: bool = False) -> tuple[str, ...]:
    """How it ended and the beginning of what was printed, or of what stands around the XML.

    After how long it was killed is not said: a machine that is played back would tell another time.
    """
    printed = smi_xml.around(answer.stdout) if messages_only else answer.stdout
    quote = " ".join((printed.strip() or answer.stderr.strip()).split())[:_QUOTE]
    # The exit status of a program that was killed says who killed it, which is us.
    ended = "killed because it did not end in time" if answer.timed_out else f"exit status {answer.rc}"
    return (ended, *((quote,) if quote else ()))
