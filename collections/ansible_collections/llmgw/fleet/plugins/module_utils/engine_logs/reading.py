# SPDX-License-Identifier: BSD-2-Clause
"""A log as lines of bounded number and length, and those of the last start among them."""

from __future__ import annotations

import re
from typing import Sequence, Tuple

VLLM = "vllm"
SGLANG = "sglang"
LLAMA_CPP = "llama.cpp"
SIM = "sim"

TEXT_LIMIT = 512 * 1024
LINE_LIMIT = 2000
_BREAK = re.compile(r"[\r\n]+")
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}m")
# What an engine prints first. A log file, and the journal of a unit that restarts, holds several starts.
_BEGINS = {
    VLLM: re.compile(
        r"vLLM (?:API )?server version|█ {1,4}version \d|Initializing a V\d LLM engine|Initializing an LLM engine"
    ),
    SGLANG: re.compile(r"server_args=ServerArgs\("),
    LLAMA_CPP: re.compile(
        r"init: initializing \.\.\.|main: loading model|build_info: b|^build: \d|system info: n_threads"
    ),
    SIM: re.compile(r"SIMULATOR, no model is loaded"),
}
# What the guard of a group member prints first. It starts the engine, and nothing before it is of this start.
GUARD_BEGINS = re.compile(r"llmgw-guard: rank (?P<rank>\d{1,6}) at \S{1,300}, one of \d{1,6} members of group ")
_APART = 20  # lines: two first words that are closer belong to one start


def lines_of(text: str) -> Tuple[str, ...]:
    """The last lines of a text, without colours; a line that is overwritten (as progress bars are) counts each time."""
    cut = text[-TEXT_LIMIT:]
    return tuple(_COLOUR.sub("", line[:LINE_LIMIT]).rstrip() for line in _BREAK.split(cut) if line.strip())


def last_start(kind: str, lines: Sequence[str]) -> Tuple[str, ...]:
    """The lines of the last start; all of them when none is seen to begin."""
    guards = [number for number, line in enumerate(lines) if GUARD_BEGINS.search(line)]
    lines = lines[guards[-1] :] if guards else lines
    begins = None if guards else _BEGINS.get(kind)  # of one guard there is one engine
    found = 0
    if begins is not None:
        at = [number for number, line in enumerate(lines) if begins.search(line)]
        while len(at) > 1 and at[-1] - at[-2] <= _APART:
            at.pop()
        found = at[-1] if at else 0
    return tuple(lines[found:])
