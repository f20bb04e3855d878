# SPDX-License-Identifier: BSD-2-Clause
"""What a recording is: which calls were made of a machine, and what it answered.

Private to llmgw.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple, Sequence, Tuple, Union

Word = Union[str, int]


class Call(NamedTuple):
    """A method of Host and what it was asked for, without time limits and secrets: `read`, (`/proc/stat`, 4194304)."""

    method: str
    of: Tuple[Word, ...]


def command(argv: Sequence[str], stdin: str | None) -> Tuple[Word, ...]:
    """What a command is remembered by: its words, and of its standard input the digest."""
    if stdin is None:
        return tuple(argv)
    return (*argv, f"< sha256:{hashlib.sha256(stdin.encode('utf-8', 'replace')).hexdigest()}")


@dataclass(frozen=True)
class Answer:
    """What came back: small values as JSON, and contents as bytes, each by its name."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    contents: Mapping[str, bytes] = field(default_factory=dict)


UNANSWERED = Answer({"unanswered": True})
"""The call had not come back when the recording ended: a filesystem that hangs."""
LEFT_OUT = Answer({"left_out": True})
"""The answer was too large to keep."""


@dataclass(frozen=True)
class Recording:
    """One machine as discovery saw it. `options` are those of discovery, as JSON; `made_at` is in Unix seconds."""

    options: Mapping[str, Any]
    made_at: float
    module_version: str | None
    calls: Mapping[Call, Tuple[Answer, ...]]
    redacted: bool = False
