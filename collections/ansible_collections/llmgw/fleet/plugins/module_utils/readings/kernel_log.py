# SPDX-License-Identifier: BSD-2-Clause
"""Reads what the kernel log says of NVIDIA cards: XIDs, SXids of NVSwitches, lost cards, and what undid them (D3).

Private to llmgw and pure. Lines may come from dmesg (with or without stamps, `-x`, `--time-format iso`), /dev/kmsg, a
syslog file or journalctl (short-monotonic, short-unix, short-iso). Every text is readable: one that says nothing of
cards has no entries. Host names before a message are left out.
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass, replace
from typing import Iterator, List, Optional, Tuple

XID = "xid"
SXID = "sxid"
OFF_BUS = "off-bus"
DRIVER_LOADED = "driver-loaded"
CARD_FOUND = "card-found"

_LONGEST = 200
_LONGEST_LINE = 2000
_SAYS_SOMETHING = re.compile(r"NVRM:|nvidia-nv|\[10de:")
_BEGINS = re.compile(r"NVRM:|nvidia-nv\w*:|pci [0-9a-fA-F:.]+: \[10de:")
_REPEATED = re.compile(r"message repeated (?P<count>[0-9]{1,9}) times: \[ ?")
_ADDRESS = r"(?:PCI:)?(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?"
# In MIG mode the GPU instance follows the address. Old drivers print bus and slot alone, which name no card here.
_XID = re.compile(r"Xid\s*\((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)[^)]*\)\s*:\s*(?P<code>[0-9]{1,4})(?=,|\s|$)")
_SXID = re.compile(r"SXid\s*\((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)\)\s*:\s*(?P<code>[0-9]{1,6})(?=,|\s|$)")
_OFF_BUS = re.compile(rf"GPU (?:at )?{_ADDRESS}:?\s+(?:GPU )?has fallen off the bus")
_NOT_THERE = re.compile(rf"The NVIDIA GPU {_ADDRESS}\s.{{0,200}}fallen off the bus", re.DOTALL)
# A message of several lines, which some readers of the log print as one line each.
_GOES_ON = re.compile(r"NVRM: (?:\(PCI ID:|installed in this system|fallen off the bus)")
_LOADS = re.compile(r"Nvlink Core is being initialized")
_LOADED = re.compile(r"NVRM: loading NVIDIA UNIX")
_FOUND = re.compile(rf"pci {_ADDRESS}: \[10de:[0-9a-fA-F]{{4}}\] type")
_PCI = re.compile(r"(?P<domain>[0-9a-f]{4,8}):(?P<slot>[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?")

_SINCE_BOOT = re.compile(r"\[\s*(?P<seconds>[0-9]{1,9}\.[0-9]{1,9})\]")
_KMSG = re.compile(r"[0-9]{1,4},[0-9]{1,12},(?P<microseconds>[0-9]{1,15}),[^;]{0,80};")
_UNIX = re.compile(r"(?P<seconds>[0-9]{9,11}\.[0-9]{1,9})\s")
_ISO = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})T(?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?"
    r"(?:Z|(?P<sign>[+-])(?P<hours>[0-9]{2}):?(?P<minutes>[0-9]{2}))"
)


@dataclass(frozen=True)
class Entry:
    """One event. `pci` is `0000:3b:00` (no function); `seconds` are since boot, `unix` since 1970, None where not told.

    `count` is how often the log says that it was repeated.
    """

    kind: str
    message: str
    pci: Optional[str] = None
    code: Optional[int] = None
    seconds: Optional[float] = None
    unix: Optional[float] = None
    count: int = 1


@dataclass(frozen=True)
class KernelLog:
    """The events in log order; `begins` is the first stamp in the text, in seconds since boot."""

    entries: Tuple[Entry, ...]
    begins: Optional[float] = None


def read(text: str) -> KernelLog:
    """What the log says of cards. Nothing raises: a line that is cut before its number is complete is passed over."""
    lines = text.splitlines()
    if lines and not text.endswith(("\n", "\r")):
        lines[-1] = _without_doubt(lines[-1])
    first = next((stamp for stamp in (_SINCE_BOOT.search(line) for line in lines[:50]) if stamp is not None), None)
    return KernelLog(
        entries=tuple(_one_for_each_load(_entries(lines))),
        begins=float(first.group("seconds")) if first is not None else _kmsg_begins(lines),
    )


def pci_key(address: Optional[str]) -> Optional[str]:
    """`0000:3b:00` for `00000000:3B:00.0`, `0000:3b:00.0` and `0000:3b:00`; None for what is no address."""
    found = _PCI.fullmatch((address or "").strip().lower())
    return f"{int(found.group('domain'), 16):04x}:{found.group('slot')}" if found is not None else None


def _without_doubt(line: str) -> str:
    """The last line of a text that ends in it; '' when the number that names its event may be cut."""
    cut = any(found is not None and found.end() == len(line) for found in (_XID.search(line), _SXID.search(line)))
    return "" if cut else line


def _kmsg_begins(lines: List[str]) -> Optional[float]:
    found = _KMSG.match(lines[0]) if lines else None
    return int(found.group("microseconds")) / 1e6 if found is not None else None


def _entries(lines: List[str]) -> Iterator[Entry]:
    for line in _whole(lines):
        begins = _BEGINS.search(line)
        found = _event(line[begins.start() :]) if begins is not None else None
        if begins is not None and found is not None:
            yield _stamped(found, line[: begins.start()])


def _whole(lines: List[str]) -> Iterator[str]:
    """The lines that may say something, each with those that go on with it."""
    whole = ""
    for line in lines:
        if whole and (line[:1].isspace() or _GOES_ON.search(line)):
            rest = _GOES_ON.search(line)
            whole = f"{whole[:_LONGEST_LINE]} {line[rest.start() :] if rest else line.strip()}"
            continue
        if whole:
            yield whole
        whole = line if _SAYS_SOMETHING.search(line) else ""
    if whole:
        yield whole


def _event(message: str) -> Optional[Entry]:
    said = _bounded(message)
    xid = _XID.search(message)
    if message.startswith("NVRM:") and xid is not None:
        return Entry(XID, said, pci_key(xid.group("pci")), int(xid.group("code")))
    sxid = _SXID.search(message)
    if sxid is not None:
        return Entry(SXID, said, pci_key(sxid.group("pci")), int(sxid.group("code")))
    for kind, pattern in ((OFF_BUS, _OFF_BUS), (OFF_BUS, _NOT_THERE), (CARD_FOUND, _FOUND)):
        found = pattern.search(message)
        if found is not None:
            return Entry(kind, said, pci_key(found.group("pci")))
    return Entry(DRIVER_LOADED, said) if _LOADS.search(message) or _LOADED.search(message) else None


def _one_for_each_load(entries: Iterator[Entry]) -> Iterator[Entry]:
    """The entries with one for each time that the driver was loaded, where it began.

    The driver names itself after it has looked at its cards, and what it says of them meanwhile is said of this load.
    """
    begun = False
    for entry in entries:
        if entry.kind == DRIVER_LOADED:
            ends = _LOADED.search(entry.message) is not None
            known = ends and begun
            begun = not ends
            if known:
                continue
        yield entry


def _bounded(message: str) -> str:
    return " ".join(message.split())[:_LONGEST]


def _stamped(entry: Entry, before: str) -> Entry:
    """The entry with the time and the repetitions that stand before its message."""
    repeated = _REPEATED.search(before)
    if repeated is not None:
        entry = replace(entry, count=int(repeated.group("count")), message=entry.message.rstrip("]"))
    stamps = list(_SINCE_BOOT.finditer(before))
    if stamps:
        return replace(entry, seconds=float(stamps[-1].group("seconds")))
    kmsg = _KMSG.match(before)
    if kmsg is not None:
        return replace(entry, seconds=int(kmsg.group("microseconds")) / 1e6)
    unix = _UNIX.match(before)
    if unix is not None:
        return replace(entry, unix=float(unix.group("seconds")))
    return replace(entry, unix=_iso_time(before))


def _iso_time(before: str) -> Optional[float]:
    found = _ISO.match(before.lstrip())
    if found is None:
        return None
    numbers = [int(part) for part in re.findall("[0-9]+", f"{found.group('date')} {found.group('time')}")]
    try:
        seconds = calendar.timegm((*numbers, 0, 0, 0))
    except (ValueError, OverflowError):  # no such month
        return None
    ahead = 60 * (60 * int(found.group("hours") or 0) + int(found.group("minutes") or 0))
    seconds -= -ahead if found.group("sign") == "-" else ahead
    return seconds + float(f"0.{found.group('fraction') or 0}")
