# SPDX-License-Identifier: BSD-2-Clause
"""How far an engine has come with loading, as its log tells (R6)."""

from __future__ import annotations

import re
from typing import Dict, NamedTuple, Optional, Pattern, Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.reading import (
    LLAMA_CPP,
    SGLANG,
    SIM,
    VLLM,
    last_start,
    lines_of,
)

_DOTS = 100  # llama.cpp prints so many while it loads
_SHARDS = r"(?:Loading|loading) .{0,60}?shards:\s{0,4}(?P<percent>\d{1,3})% Completed"


class Progress(NamedTuple):
    """What an engine does now, and how much of its start is behind it (0 to 1)."""

    words: str
    fraction: float


class _Phase(NamedTuple):
    """One phase of a start and its share of the whole. `pattern` may name `percent`, or `dots` that stand for it."""

    words: str
    pattern: Pattern[str]
    begin: float
    end: float


def _phase(words: str, pattern: str, begin: float, end: float) -> _Phase:
    return _Phase(words, re.compile(pattern), begin, end)


# The shares are those of a start from a local disk; they order the phases, and are no promise about time.
_PHASES = {
    VLLM: (
        _phase("starting", r"vLLM (?:API )?server version|█ {1,4}version \d|Initializing a V\d LLM", 0.0, 0.0),
        _phase("loading weights", r"Starting to load model", 0.05, 0.05),
        _phase("loading weights", _SHARDS, 0.05, 0.6),
        _phase("weights are loaded", r"Loading weights took|Model loading took|Loading model weights took", 0.6, 0.6),
        _phase("compiling", r"torch\.compile|Dynamo bytecode|Compiling a graph|Warming up model for", 0.65, 0.65),
        _phase("sizing the KV cache", r"Available KV cache memory|(?:GPU|CPU|XPU) KV cache size:", 0.8, 0.8),
        _phase("capturing CUDA graphs", r"Capturing CUDA graphs?.{0,80}?:\s{0,4}(?P<percent>\d{1,3})%\|", 0.8, 0.95),
        _phase("graphs are captured", r"Graph capturing finished", 0.95, 0.95),
        _phase("engine is built", r"init engine \(profile.{0,60}took", 0.97, 0.97),
        _phase("opening its port", r"Starting vLLM (?:API )?server|Application startup complete", 0.99, 0.99),
    ),
    SGLANG: (
        _phase("starting", r"server_args=ServerArgs\(", 0.0, 0.0),
        _phase("loading weights", r"Load weight begin", 0.05, 0.05),
        _phase("loading weights", _SHARDS, 0.05, 0.6),
        _phase("weights are loaded", r"Load weight end", 0.6, 0.6),
        _phase("sizing the KV cache", r"KV [Cc]ache is allocated|Memory pool end", 0.7, 0.7),
        _phase("capturing CUDA graphs", r"Capture .{0,40}graph begin", 0.75, 0.75),
        _phase("capturing CUDA graphs", r"Capturing .{0,80}?:\s{0,4}(?P<percent>\d{1,3})%\|", 0.75, 0.95),
        _phase("graphs are captured", r"Capture .{0,40}graph end", 0.95, 0.95),
        _phase("warming up", r"max_total_num_tokens=|Application startup complete", 0.97, 0.97),
        _phase("ready", r"The server is fired up", 1.0, 1.0),
    ),
    LLAMA_CPP: (
        _phase("loading weights", r"loading model(?: tensors)?\b", 0.02, 0.02),
        _phase("loading weights", r"loaded\s{1,3}(?P<percent>\d{1,3})% model tensors", 0.02, 0.9),
        _phase("loading weights", r"^(?P<dots>\.{1,200})$", 0.02, 0.9),
        _phase("making its context", r"llama_context: constructing|llama_new_context_with_model: n_ctx", 0.92, 0.92),
        _phase("making its slots", r"load_model: initializing|initializing slots", 0.95, 0.95),
        _phase("ready", r"model loaded|listening on http", 1.0, 1.0),
    ),
    SIM: (
        _phase("loading weights", r"Loading .{1,200} as ", 0.0, 0.0),
        _phase("ready", r"listening on http", 1.0, 1.0),
    ),
}


def progress(kind: Optional[str], text: str) -> Optional[Progress]:
    """The furthest phase that the last start in a log has reached; None when its words are not known."""
    phases = _PHASES.get(kind or "", ())
    lines = last_start(kind or "", lines_of(text))
    for phase in reversed(phases):
        for line in reversed(lines):
            found = phase.pattern.search(line)
            if found is not None:
                return _reached(phase, found.groupdict())
    return None


def _reached(phase: _Phase, said: Dict[str, Optional[str]]) -> Progress:
    percent = _percent(said)
    if percent is None:
        return Progress(phase.words, phase.begin)
    fraction = phase.begin + (phase.end - phase.begin) * percent / 100
    return Progress(f"{phase.words}, {percent} %", round(fraction, 3))


def _percent(said: Dict[str, Optional[str]]) -> Optional[int]:
    dots = said.get("dots")
    if dots is not None:
        return min(100, len(dots) * 100 // _DOTS)
    percent = said.get("percent")
    return None if percent is None else min(100, int(percent))


KINDS: Tuple[str, ...] = tuple(sorted(_PHASES))
