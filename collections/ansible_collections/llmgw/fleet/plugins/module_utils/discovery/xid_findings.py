# SPDX-License-Identifier: BSD-2-Clause
"""Findings about XIDs: cards that are out until they were reset, cards worth a look, a log that cannot be read (D3).

Private to llmgw and pure.
"""

from __future__ import annotations

import re
import time
from typing import Dict, Iterator, List, Optional, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gpu_recovery
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.xid_codes import (
    APPLICATION,
    FATAL,
    OFF_BUS,
    RECOVERY_ACTION,
    WARNING,
    Meaning,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.kernel_log import Entry

_ACTION = re.compile(r"changed\b.*\bto 0x[0-9a-fA-F]+ \((?P<action>[^)]{1,60})")
_FATAL_SWITCH = re.compile(r"(?<![Nn]on-)(?<![Nn]on)\b[Ff]atal\b")
_MOST_SWITCH_LINES = 5
_UNKNOWN = Meaning(
    "this version of llmgw does not know what it means",
    "Look it up in NVIDIA's XID catalogue (docs.nvidia.com/deploy/xid-errors); reset the card if that says so.",
)


def asked_for(message: str) -> Optional[str]:
    """The recovery action that an XID 154 tells (`GPU Reset Required`, `None`); None when it tells none."""
    found = _ACTION.search(message)
    return found.group("action").strip() if found is not None else None


def of_card(gpu: contract.Gpu) -> Iterator[Finding]:
    """The findings about the XIDs that the card carries."""
    for xid in gpu.xids or ():
        if xid.cleared is not None:
            if xid.code in FATAL:
                message = f"{_had(gpu, xid)}: {FATAL[xid.code].said}; it is in use again because {xid.cleared}"
                yield _finding(
                    "xid-cleared", "info", gpu, xid, Meaning(message, "Have the card serviced if it comes back.")
                )
        elif xid.code == RECOVERY_ACTION:
            action = asked_for(xid.message or "") or "an action that the line does not name"
            message = f"the driver changed the recovery action of card {gpu.index} to '{action}' (XID 154{_when(xid)})"
            remedy = "Read 'GPU Recovery Action' of 'nvidia-smi -q' and do what it asks for."
            yield _finding("xid-recovery-action", "info", gpu, xid, Meaning(message, remedy))
        elif xid.code in FATAL:
            yield _finding("xid-fatal", "block", gpu, xid, _explained(gpu, xid, FATAL[xid.code]))
        elif xid.code not in APPLICATION:
            known = xid.code in WARNING
            meaning = _explained(gpu, xid, WARNING.get(xid.code, _UNKNOWN))
            yield _finding("xid-warning" if known else "xid-unknown", "warn", gpu, xid, meaning)


def elsewhere(entries: Sequence[Entry]) -> Iterator[Finding]:
    """One finding for each address at which a card failed and which is none of the node's cards."""
    failed: Dict[str, List[Entry]] = {}
    for entry in entries:
        if entry.pci is not None and (entry.kind == "off-bus" or (entry.kind == "xid" and entry.code in FATAL)):
            failed.setdefault(entry.pci, []).append(entry)
    for address, said in failed.items():
        code = said[-1].code or OFF_BUS
        yield Finding(
            code="xid-elsewhere",
            severity="warn",
            message=f"a card at {address}, which the driver does not list, had XID {code}: {FATAL[code].said}",
            remedy=FATAL[code].remedy.format(reset="Reboot the node."),
            subject=address,
            evidence=(said[-1].message,),
        )


def of_switches(entries: Sequence[Entry]) -> Iterator[Finding]:
    """One finding about all errors of NVSwitches, which concern every card of the node."""
    if not entries:
        return
    fatal = [entry for entry in entries if _FATAL_SWITCH.search(entry.message)]
    codes = ", ".join(str(code) for code in sorted({entry.code or 0 for entry in fatal or entries}))
    yield Finding(
        code="nvswitch-error",
        severity="warn" if fatal else "info",
        message=f"the NVSwitches reported {sum(entry.count for entry in entries)} errors, "
        f"{sum(entry.count for entry in fatal)} of them fatal (SXid {codes})",
        remedy="Replicas over several cards may hang: drain the node, reset all its cards and switches together "
        "(nvidia-smi --gpu-reset) and restart nvidia-fabricmanager, or reboot it."
        if fatal
        else "Nothing now; look at the links (nvidia-smi nvlink -s) when they keep coming.",
        evidence=tuple(entry.message for entry in (fatal or list(entries))[-_MOST_SWITCH_LINES:]),
    )


def unreadable(why: str) -> Finding:
    """The finding for a log that cannot be read."""
    return Finding(
        code="kernel-log-unreadable",
        severity="info",
        message="the kernel log cannot be read: XIDs of the cards are unknown",
        remedy="Run discovery as root (become: true), or let its user read the journal (group systemd-journal or adm).",
        evidence=(why,),
    )


def wrapped(since: float) -> Finding:
    """The finding for a log whose beginning is gone."""
    return Finding(
        code="kernel-log-wrapped",
        severity="info",
        message=f"the kernel log begins {since / 3600:.1f} hours after boot: XIDs before that are unknown",
        remedy="Keep the kernel's messages in the journal, or give the kernel a larger buffer (log_buf_len=16M).",
    )


def _explained(gpu: contract.Gpu, xid: contract.Xid, meaning: Meaning) -> Meaning:
    return Meaning(f"{_had(gpu, xid)}: {meaning.said}", meaning.remedy.format(reset=gpu_recovery.reset(gpu)))


def _had(gpu: contract.Gpu, xid: contract.Xid) -> str:
    often = f", {xid.count} times," if xid.count is not None and xid.count > 1 else ""
    return f"card {gpu.index} had XID {xid.code}{often}{_when(xid)}"


def _when(xid: contract.Xid) -> str:
    if xid.time is None:
        return ""
    try:
        return time.strftime(" at %Y-%m-%d %H:%M UTC", time.gmtime(xid.time))
    except (ValueError, OverflowError, OSError):  # a stamp beyond every calendar
        return ""


def _finding(code: str, severity: str, gpu: contract.Gpu, xid: contract.Xid, meaning: Meaning) -> Finding:
    return Finding(
        code=code,
        severity=severity,
        message=meaning.said,
        remedy=meaning.remedy,
        subject=gpu.uuid or gpu.pci_address,
        evidence=(xid.message,) if xid.message else (),
    )
