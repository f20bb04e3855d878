# SPDX-License-Identifier: BSD-2-Clause
"""The XIDs of each card since boot, from the kernel log, and what they mean for the card (D3).

Private to llmgw. An XID counts until the card was reset, and the log seldom says that. What is taken as proof: the
driver was loaded again; the kernel found the card anew; or the driver asked for an action after it (XID 154) and, by
its own word, asks for none now.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import xid_findings
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.xid_codes import FATAL, OFF_BUS, RECOVERY_ACTION
from ansible_collections.llmgw.fleet.plugins.module_utils.host import MISSING, UNUSABLE, Host, Result
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import kernel_log
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.kernel_log import Entry, KernelLog, pci_key

_DMESG = ("dmesg",)
# The wanted lines alone: the journal of a long boot is large. Without a pattern where journalctl knows none.
_JOURNAL = ("journalctl", "-k", "-b", "--no-pager", "-o", "short-monotonic")
_PATTERN = ("--grep", "NVRM|nvidia-nv|10de:")
_DMESG_S = 5.0
_JOURNAL_S = 10.0
# A log that begins later has lost its beginning: the kernel keeps the newest lines.
_AT_BOOT_S = 60.0
_MOST = 20
_LONGEST = 120
_QUOTE = 200
_NO_JOURNAL = ("insufficient permissions", "not seeing messages", "Permission denied", "No journal files were found")


class Heard(NamedTuple):
    """The log, or why there is none; `since` is where it begins, in seconds since boot, when that is not at boot."""

    log: Optional[KernelLog]
    since: Optional[float] = None
    why_not: Optional[str] = None


def read_xids(
    host: Host, gpus: Sequence[contract.Gpu], booted_at: Optional[float], budget_s: float
) -> Tuple[Tuple[contract.Gpu, ...], Tuple[Finding, ...]]:
    """The cards with their XIDs, and the findings about them. Without cards the log is not read.

    Where the log cannot be read the XIDs are unknown (None), and a finding says so.
    """
    if not gpus:
        return tuple(gpus), ()
    return with_xids(gpus, hear(host, budget_s), booted_at)


def hear(host: Host, budget_s: float) -> Heard:
    """The kernel log since boot, from dmesg, and from the journal what dmesg does not give."""
    deadline = time.monotonic() + budget_s
    answer = _run(host, _DMESG, deadline, _DMESG_S)
    if answer.rc == 0 and answer.stdout.strip():
        log = kernel_log.read(answer.stdout)
        if log.begins is None or log.begins <= _AT_BOOT_S:
            return Heard(log)
        earlier = _journal(host, deadline)
        if earlier is None:
            return Heard(log, since=log.begins)
        return Heard(KernelLog((*_before(earlier, log.begins), *log.entries)))
    journal = _journal(host, deadline)
    if journal is not None:
        return Heard(journal)
    said = " ".join((answer.stderr or answer.stdout).split())[:_QUOTE]
    return Heard(None, why_not="dmesg did not end in time" if answer.timed_out else said or "dmesg prints nothing")


def with_xids(
    gpus: Sequence[contract.Gpu], heard: Heard, booted_at: Optional[float]
) -> Tuple[Tuple[contract.Gpu, ...], Tuple[Finding, ...]]:
    """The cards with what the log says of them, and the findings: pure."""
    if heard.log is None:
        return tuple(gpus), (xid_findings.unreadable(heard.why_not or "it cannot be read"),)
    entries = heard.log.entries
    done = tuple(replace(gpu, xids=_xids(gpu, entries, booted_at)) for gpu in gpus)
    found: List[Finding] = [] if heard.since is None else [xid_findings.wrapped(heard.since)]
    for gpu in done:
        found.extend(xid_findings.of_card(gpu))
    known = {pci_key(gpu.pci_address) for gpu in gpus}
    now = entries[_last_load(entries) :]
    found.extend(xid_findings.elsewhere([entry for entry in now if entry.pci not in known]))
    found.extend(xid_findings.of_switches([entry for entry in now if entry.kind == kernel_log.SXID]))
    return done, tuple(found)


def _run(host: Host, argv: Tuple[str, ...], deadline: float, at_most_s: float) -> Result:
    left = deadline - time.monotonic()
    if left <= 0:
        return Result(UNUSABLE, "", "no time left", timed_out=True)
    return host.run(argv, min(at_most_s, left))


def _journal(host: Host, deadline: float) -> Optional[KernelLog]:
    """What the journal says of cards since boot; None when there is no journal that may be read."""
    answer = _run(host, (*_JOURNAL, *_PATTERN), deadline, _JOURNAL_S)
    if answer.rc not in {0, 1, MISSING} or "pattern matching" in answer.stderr:
        answer = _run(host, _JOURNAL, deadline, _JOURNAL_S)
    # Newer journalctl ends with 1 when the pattern matches nothing.
    nothing = answer.rc == 1 and not answer.stderr.strip()
    if answer.timed_out or not (answer.rc == 0 or nothing) or any(word in answer.stderr for word in _NO_JOURNAL):
        return None
    return kernel_log.read(answer.stdout)


def _before(log: KernelLog, seconds: float) -> Iterator[Entry]:
    return (entry for entry in log.entries if entry.seconds is not None and entry.seconds < seconds)


def _last_load(entries: Sequence[Entry]) -> int:
    loads = [at for at, entry in enumerate(entries) if entry.kind == kernel_log.DRIVER_LOADED]
    return loads[-1] if loads else 0


def _xids(gpu: contract.Gpu, entries: Sequence[Entry], booted_at: Optional[float]) -> Tuple[contract.Xid, ...]:
    """One record for each code, and one more when some of that code are cleared; cleared ones first, then by time.

    Of more than twenty the oldest go, and none that takes the card out before the others. A card that fell off the bus
    without an XID, as the kernel may say in other words alone, has XID 79 all the same.
    """
    key = pci_key(gpu.pci_address)
    standing: Dict[int, contract.Xid] = {}
    cleared: Dict[int, contract.Xid] = {}
    asked: Optional[str] = None
    for entry in entries:
        if entry.kind != kernel_log.DRIVER_LOADED and (entry.pci is None or entry.pci != key):
            continue
        reset = _reset_by(entry)
        if reset is not None:
            _clear(standing, cleared, reset)
        elif entry.kind == kernel_log.XID and entry.code is not None:
            standing[entry.code] = _counted(standing.get(entry.code), entry, booted_at)
            asked = xid_findings.asked_for(entry.message) if entry.code == RECOVERY_ACTION else asked
        elif entry.kind == kernel_log.OFF_BUS and OFF_BUS not in standing:
            standing[OFF_BUS] = _counted(None, replace(entry, code=OFF_BUS), booted_at)
    if RECOVERY_ACTION in standing and (gpu.recovery_action or "").lower() == "none":
        _clear(standing, cleared, f"the driver asked for '{asked or 'an action'}' then and asks for nothing now")
    records = (*cleared.values(), *standing.values())
    kept = sorted(records, key=lambda xid: (xid.cleared is None, xid.code in FATAL, xid.time or 0.0))[-_MOST:]
    return tuple(sorted(kept, key=lambda xid: (xid.cleared is None, xid.time or 0.0)))


def _reset_by(entry: Entry) -> Optional[str]:
    """How the entry shows that the card was reset, None when it does not."""
    if entry.kind == kernel_log.DRIVER_LOADED:
        return "the driver was loaded again since"
    if entry.kind == kernel_log.CARD_FOUND:
        return "the kernel found the card anew since"
    if entry.code == RECOVERY_ACTION and (xid_findings.asked_for(entry.message) or "").lower() == "none":
        return "the driver asks for nothing any more since (XID 154)"
    return None


def _clear(standing: Dict[int, contract.Xid], cleared: Dict[int, contract.Xid], how: str) -> None:
    for code, xid in standing.items():
        before = cleared.get(code)
        cleared[code] = replace(xid, count=(xid.count or 1) + (before.count or 1 if before else 0), cleared=how)
    standing.clear()


def _counted(before: Optional[contract.Xid], entry: Entry, booted_at: Optional[float]) -> contract.Xid:
    at = entry.unix
    if at is None and entry.seconds is not None and booted_at is not None:
        at = round(booted_at + entry.seconds, 3)
    count = entry.count + (before.count or 0 if before else 0)
    return contract.Xid(code=entry.code or 0, time=at, message=entry.message[:_LONGEST], count=count)
