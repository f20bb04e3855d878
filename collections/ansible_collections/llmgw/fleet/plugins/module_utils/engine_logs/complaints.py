# SPDX-License-Identifier: BSD-2-Clause
"""Why an engine failed, in a sentence, and what to do first: the errors that are worth naming (R5).

`known_complaints.py` holds them. What is not among them is told in the engine's own last words.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.group import ended_by_another
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.known_complaints import GROUP_ENDED, KNOWN
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.reading import (
    GUARD_BEGINS,
    last_start,
    lines_of,
)

UNNAMED = "unnamed"
_STARTS = 3  # how far back a start is looked for of which an engine or a guard tells something
_SHOWN = 240
_PART = 120
_LAST_WORDS = re.compile(
    r"(?P<said>(?:\b[A-Za-z_][\w.]{0,80}(?:Error|Exception): |\b(?:error|ERROR|fatal|FATAL)\b[]: ]{1,3})\S.{2,400})"
)
# What a program says for the record is no error, though it may speak of one.
_NO_ERROR = re.compile(r"\b(?:INFO|WARNING|DEBUG) \d\d-\d\d \d\d:|^\d{1,4}\.\d\d\.\d{3}\.\d{3} [IWD] ")
# Words that follow every failure, and name none.
_EMPTY = re.compile(
    r"See root cause above|Engine core initialization failed|WorkerProc initialization failed|the lines above say why"
    r"|exiting due to model loading error|Failed core proc|Application startup failed"
)


class Complaint(NamedTuple):
    """What failed. `code` names a kind of failure; `remedy` is what to do first, empty where nobody can tell."""

    code: str
    says: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.says}. {self.remedy}" if self.remedy else self.says


def complaint(kind: Optional[str], text: str) -> Optional[Complaint]:
    """Why the last start in a log failed; None when the log names no error.

    The first of the known errors that is found counts, not the last that is printed: a traceback ends with its least
    telling line. A guard that was started again and only waits tells nothing of that: the start before it does.
    """
    lines = tuple(line for line in lines_of(text) if not _NO_ERROR.search(line))
    left = lines
    for _number in range(_STARTS):
        last = last_start(kind or "", left)
        found = _of_start(kind, last)
        if found is not None or not last:
            return found
        if not GUARD_BEGINS.search(last[0]):
            return _named(kind, left)
        left = left[: len(left) - len(last)]
    return None


def _of_start(kind: Optional[str], lines: Sequence[str]) -> Optional[Complaint]:
    """What one start says. What an engine prints once another member has ended its group only follows from that."""
    ended = ended_by_another(lines)
    own = lines if ended is None else lines[: ended.line]
    found = _named(kind, own) or _last_words(own)
    if found is not None or ended is None:
        return found
    return Complaint(GROUP_ENDED.code, GROUP_ENDED.says.format(why=_plain(ended.why, _SHOWN)), GROUP_ENDED.remedy)


def _named(kind: Optional[str], lines: Sequence[str]) -> Optional[Complaint]:
    whole = "\n".join(lines)
    for known in KNOWN:
        if known is GROUP_ENDED or (known.kinds and kind not in known.kinds):
            continue
        found = known.pattern.search(whole)
        if found is not None:
            parts = {name: _plain(part) for name, part in found.groupdict().items()}
            return Complaint(known.code, known.says.format(**parts), known.remedy.format(**parts))
    return None


def _last_words(lines: Sequence[str]) -> Optional[Complaint]:
    for line in reversed(lines):
        found = _LAST_WORDS.search(line)
        if found is not None and not _EMPTY.search(line):
            said = _plain(found.group("said"), _SHOWN)
            return Complaint(UNNAMED, f"its log says: {said.rstrip('.')}", "")
    return None


def _plain(part: Optional[str], limit: int = _PART) -> str:
    """A part of a log as it may stand in a sentence: printable, on one line, of bounded length."""
    text = " ".join("".join(filter(str.isprintable, part or "-")).split()).strip(" ,;")
    return text if len(text) <= limit else text[: limit - 3] + "..."
