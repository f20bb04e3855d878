# SPDX-License-Identifier: BSD-2-Clause
"""The cards of a node by the better of two paths: NVML, and when it does not answer nvidia-smi, with the reason (D1).

Private to llmgw. A node that has no card pays for neither.
"""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import (
    bound_cards,
    gpu_build,
    gpu_conclude,
    nvml,
    nvml_dump,
    nvml_words,
    presence,
    quoting,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host, Result

PROGRAM = "nvml"
_NVML_S = 15.0
# Part of the time that NVML may take: what is left must do for nvidia-smi, which asks the same driver.
_SHARE = 0.4
_QUOTE = 200
_LONGEST = 400
_NO_TOOL = "nvidia-smi-missing"
_INSTALL = (
    "Set llmgw_nvml to true and run the playbook llmgw.fleet.prepare, or install nvidia-ml-py for the Python that runs "
    "discovery: {python} -m pip install nvidia-ml-py."
)
_MISMATCH = "Reboot the node, or reload the nvidia modules when nothing uses them."
# NVML's own errors, and what to do about them.
_REMEDIES = {
    4: "Run discovery as root (become: true), and look at the permissions of /dev/nvidia*.",
    9: "Load the module (modprobe nvidia) or install the driver.",
    12: "Install the driver's library (libnvidia-ml.so.1) of the version of the loaded driver.",
    18: _MISMATCH,
}
_LOOK = "Run nvidia-smi on the node, and look for XIDs and messages of NVRM in the kernel log (journalctl -k)."


@dataclass(frozen=True)
class _Refusal:
    """Why NVML was not used: a sentence's end, what to do, and whether it is only that the library is not there."""

    reason: str
    remedy: str
    missing: bool = False


def read_cards(host: Host, budget_s: float, library_dir: str | None = None) -> gpu_build.Cards:
    """The cards of this node within `budget_s` seconds; `gpus` None: they are unknown, (): there are none.

    nvidia-ml-py is taken from `library_dir`, where the role `node` puts it, before anywhere else.
    """
    deadline = time.monotonic() + budget_s
    bound = bound_cards.read(host)
    if not presence.may_have_cards(host):
        return gpu_build.Cards(())
    answer = _by_nvml(host, min(_NVML_S, budget_s * _SHARE), bound, library_dir)
    if isinstance(answer, gpu_build.Cards):
        return answer
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import nvidia_smi  # noqa: PLC0415 - costs time

    return _fallen_back(nvidia_smi.read_cards(host, max(0.0, deadline - time.monotonic())), answer)


def _by_nvml(
    host: Host, timeout_s: float, bound: tuple[bound_cards.Bound, ...], library_dir: str | None
) -> gpu_build.Cards | _Refusal:
    if timeout_s <= 0:
        return _Refusal("no time was left for it", _LOOK)
    result = host.python(PROGRAM, program(library_dir), timeout_s)
    try:
        report = nvml.read(result.stdout)
    except Unreadable:
        return _died(result, timeout_s)
    if isinstance(report, nvml.Failure):
        return _refused(report)
    if len(report.lost) == len(report.gpus) and (report.gpus or bound):
        return _Refusal("it reaches none of the cards that the driver holds", _LOOK)
    if report.unlisted:
        index, why = min(report.unlisted.items())
        return _Refusal(f"it does not list the MIG devices of card {index}: {why}", _REMEDIES[4])
    answered = bound_cards.complete(bound_cards.Answered(report.gpus, report.lost), bound)
    driver = contract.GpuDriver(PROGRAM, None, report.driver_version, report.cuda_version)
    return gpu_conclude.conclude(host, answered, driver)


def program(library_dir: str | None) -> str:
    """The text of `nvml_dump` as a program that looks for the library in `library_dir` first."""
    dump = inspect.getsource(nvml_dump)
    if library_dir is None:
        return dump
    # What is to be done before a text that begins with an import from the future cannot stand in it.
    return f"import sys\nsys.path.insert(0, {library_dir!r})\nexec({dump!r})\n"


def _died(result: Result, timeout_s: float) -> _Refusal:
    if result.timed_out:
        return _Refusal(f"it did not answer within {timeout_s:.0f} s", _LOOK)
    if result.rc < 0:
        return _Refusal(f"its process was killed by signal {-result.rc}", _LOOK)
    said = " ".join((result.stderr or result.stdout).split())[-_QUOTE:]
    return _Refusal(f"its process ended with status {result.rc} and no answer{f': {said}' if said else ''}", _LOOK)


def _refused(failure: nvml.Failure) -> _Refusal:
    install = _INSTALL.format(python=failure.python or "python3")
    if failure.stage == "missing":
        return _Refusal("nvidia-ml-py is not installed", install, missing=True)
    if failure.stage == "library":
        return _Refusal(f"the module pynvml is not nvidia-ml-py: {failure.text}", install)
    if failure.stage == "import":
        return _Refusal(f"the module pynvml cannot be imported: {failure.text}", install)
    if failure.error is None:
        return _Refusal(failure.text, _LOOK)
    word = nvml_words.error(failure.error)
    return _Refusal(f"NVML says: {word}", _REMEDIES.get(failure.error, _LOOK))


def _fallen_back(cards: gpu_build.Cards, refusal: _Refusal) -> gpu_build.Cards:
    """The cards of nvidia-smi with the reason why they are not NVML's, as long as that is a cause of its own."""
    if cards.gpus == ():
        return cards
    refusal = replace(refusal, reason=quoting.quoted(refusal.reason, _LONGEST))
    driver = replace(cards.driver or contract.GpuDriver(), fallback_reason=refusal.reason)
    known = cards.gpus is not None
    if not known and (refusal.missing or any(one.code != _NO_TOOL for one in cards.findings)):
        # What keeps nvidia-smi from answering is the driver's trouble: one cause, one finding.
        return replace(cards, driver=driver)
    finding = contract.Finding(
        code="nvml-fallback",
        severity="info" if refusal.missing else "warn",
        message=f"the cards are {'read by nvidia-smi' if known else 'unknown to NVML too'}: {refusal.reason}",
        remedy=refusal.remedy,
    )
    return replace(cards, driver=driver, findings=(*cards.findings, finding))
