# SPDX-License-Identifier: BSD-2-Clause
"""What an engine said of its memory when it started, as the contract's EngineMemory (P13, domain.md J)."""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, NamedTuple, Optional, Pattern, Sequence, Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import EngineMemory
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.reading import (
    LLAMA_CPP,
    SGLANG,
    SIM,
    VLLM,
    last_start,
    lines_of,
)

_NUMBER = r"(?P<n>\d{1,9}(?:\.\d{1,9})?)"
_TOKENS = r"(?P<n>\d[\d,]{0,15})"
_MIB_PER_GIB = 1024
_MOST_TOKENS = 10**12

# vLLM called GiB `GB` before 0.9, and its V0 engine said the size of the KV cache in another sentence.
_VLLM_WEIGHTS = re.compile(rf"(?:Model loading|Loading model weights) took {_NUMBER} Gi?B")
_VLLM_KV = re.compile(
    rf"(?:Available KV cache memory:|(?:rest of the memory|memory) reserved for KV Cache is) {_NUMBER} ?Gi?B"
)
_VLLM_CPU_KV = re.compile(rf"Auto set \({_NUMBER}/[\d.]{{1,12}}\) GiB for KV cache")
_VLLM_TOKENS = re.compile(rf"KV cache size: {_TOKENS} tokens")
_VLLM_GRAPHS = re.compile(rf"Graph capturing finished in .{{1,20}}, took {_NUMBER} Gi?B")
_VLLM_VERSION = re.compile(
    r"(?:vLLM (?:API )?server version|LLM engine \(v|version:?) ?v?(?P<version>\d{1,4}\.\d{1,4}[\w.+]{0,40})"
)
# SGLang's GB are GiB.
_SGLANG_WEIGHTS = re.compile(rf"Load weight end\..{{0,400}}?mem usage={_NUMBER} GB")
_SGLANG_KV = re.compile(
    r"KV [Cc]ache (?:is )?allocated\..{0,80}?#tokens: \d{1,12}, (?:"
    r"K size: (?P<k>\d{1,9}\.\d{1,4}) GB, V size: (?P<v>\d{1,9}\.\d{1,4}) GB|KV size: (?P<kv>\d{1,9}\.\d{1,4}) GB)"
)
_SGLANG_AFTER_CAPTURE = "Post-capture KV sizing"
_SGLANG_TOKENS = re.compile(rf"\bmax_total_num_tokens={_TOKENS}")
_SGLANG_GRAPHS = re.compile(rf"Capture .{{0,60}}graph end\..{{0,600}}?mem usage={_NUMBER} GB")
_LLAMA_BUFFER = re.compile(rf"(?P<device>\w{{1,40}}) (?P<what>model|KV) buffer size = {{1,12}}{_NUMBER} MiB")
_LLAMA_SLOTS = re.compile(
    r"n_slots = (?P<slots>\d{1,6}), n_ctx_slot = (?P<each>\d{1,10}), kv_unified = '(?P<one>\w{4,5})'"
)
_LLAMA_CONTEXT = re.compile(rf"\bn_ctx {{1,12}}= {_TOKENS}\b")
_HOST = re.compile(r"CPU|_Host$|_Mapped$")

_RANK = re.compile(r"\b(?P<word>DP|PP|TP|EP|PCP|DCP)_?(?P<n>\d{1,4})")


class _Said(NamedTuple):
    """A number and who said it: the ranks that stand at the head of the line (`DP0 TP1`)."""

    value: float
    ranks: Dict[str, int]


def memory(kind: Optional[str], text: str, version: Optional[str] = None) -> Optional[EngineMemory]:
    """The figures of the last start in a log, of its first rank; None when it says none.

    `version`: the engine's, where the log does not tell its own.
    """
    lines = last_start(kind or "", lines_of(text))
    reader = _READERS.get(kind or "")
    found = reader(lines) if reader is not None else EngineMemory()
    if found == EngineMemory():
        return None
    said = version or (_version(lines) if kind == VLLM else None)
    return EngineMemory(
        weights_mib=found.weights_mib,
        kv_cache_mib=found.kv_cache_mib,
        kv_cache_tokens=found.kv_cache_tokens,
        graphs_mib=found.graphs_mib,
        source=f"{kind} {said}" if said else kind,
    )


def _vllm(lines: Sequence[str]) -> EngineMemory:
    return EngineMemory(
        weights_mib=_mib(_first_rank(_all(_VLLM_WEIGHTS, lines))),
        kv_cache_mib=_mib(_first_rank(_all(_VLLM_KV, lines) or _all(_VLLM_CPU_KV, lines))),
        kv_cache_tokens=_of_all_engines(_all(_VLLM_TOKENS, lines)),
        graphs_mib=_mib(_first_rank(_all(_VLLM_GRAPHS, lines))),
    )


def _sglang(lines: Sequence[str]) -> EngineMemory:
    graphs = [one.value for one in _all(_SGLANG_GRAPHS, lines) if not any(one.ranks.values())]
    return EngineMemory(
        weights_mib=_mib(_first_rank(_all(_SGLANG_WEIGHTS, lines))),
        kv_cache_mib=_mib(_sglang_pool(lines)),
        kv_cache_tokens=_of_all_engines(_all(_SGLANG_TOKENS, lines)),
        graphs_mib=_mib(sum(graphs)) if graphs else None,
    )


def _sglang_pool(lines: Sequence[str]) -> Optional[float]:
    """GiB of the first rank's pool; None with several, of a hybrid or a draft model: they do not add up to one."""
    found: List[float] = []
    after_capture = [line for line in lines if _SGLANG_AFTER_CAPTURE in line]
    for line in after_capture or lines:
        said = _SGLANG_KV.search(line)
        if said is not None and not any(_ranks(line, said.start()).values()):
            parts = [said.group(name) for name in ("k", "v", "kv")]
            found.append(sum(float(part) for part in parts if part is not None))
    return found[0] if len(found) == 1 else None


def _llama_cpp(lines: Sequence[str]) -> EngineMemory:
    weights, cache = _buffers("model", lines), _buffers("KV", lines)
    device = next((name for name in (*weights, *cache) if not _HOST.search(name)), None)
    return EngineMemory(
        weights_mib=_of_device(device, weights),
        kv_cache_mib=_of_device(device, cache),
        kv_cache_tokens=_context(lines),
    )


def _buffers(what: str, lines: Sequence[str]) -> Dict[str, float]:
    """MiB by device, in the order in which they are named; a model of several files has several buffers on one."""
    found: Dict[str, float] = {}
    for line in lines:
        said = _LLAMA_BUFFER.search(line)
        if said is not None and said.group("what") == what:
            found[said.group("device")] = found.get(said.group("device"), 0.0) + float(said.group("n"))
    return found


def _of_device(device: Optional[str], buffers: Dict[str, float]) -> Optional[int]:
    """MiB on the first device; without one all that lies in host memory."""
    if device is not None:
        return round(buffers[device]) if device in buffers else None
    return round(sum(buffers.values())) if buffers else None


def _context(lines: Sequence[str]) -> Optional[int]:
    for line in lines:
        said = _LLAMA_SLOTS.search(line)
        if said is not None:
            slots = 1 if said.group("one") == "true" else int(said.group("slots"))
            return _tokens(float(slots * int(said.group("each"))))
    contexts = [int(one.value) for one in _all(_LLAMA_CONTEXT, lines)]
    return _tokens(float(contexts[0])) if contexts else None


def _sim(lines: Sequence[str]) -> EngineMemory:
    return EngineMemory(kv_cache_tokens=_of_all_engines(_all(_VLLM_TOKENS, lines)))


_READERS = {VLLM: _vllm, SGLANG: _sglang, LLAMA_CPP: _llama_cpp, SIM: _sim}


def _all(pattern: Pattern[str], lines: Iterable[str]) -> Tuple[_Said, ...]:
    found = ((line, pattern.search(line)) for line in lines)
    return tuple(
        _Said(float(said.group("n").replace(",", "")), _ranks(line, said.start()))
        for line, said in found
        if said is not None
    )


def _ranks(line: str, before: int) -> Dict[str, int]:
    """Ranks by their kind, from the head of a line: `(Worker_PP0_TP1 pid=7)`, `[2026-01-01 00:00:00 DP0 TP1]`."""
    return {found.group("word"): int(found.group("n")) for found in _RANK.finditer(line[:before].replace("_", " "))}


def _first_rank(said: Sequence[_Said]) -> Optional[float]:
    """What the first rank said first: a draft model, if there is one, comes after the model itself."""
    first = [one.value for one in said if not any(one.ranks.values())]
    return first[0] if first else None


def _of_all_engines(said: Sequence[_Said]) -> Optional[int]:
    """Tokens of the whole replica: data-parallel engines have a cache each, ranks of one engine share one."""
    by_engine: Dict[int, float] = {}
    for one in said:
        by_engine.setdefault(one.ranks.get("DP", 0), one.value)
    return _tokens(sum(by_engine.values())) if by_engine else None


def _tokens(value: float) -> Optional[int]:
    return int(value) if 0 < value < _MOST_TOKENS else None


def _mib(gib: Optional[float]) -> Optional[int]:
    return None if gib is None else round(gib * _MIB_PER_GIB)


def _version(lines: Sequence[str]) -> Optional[str]:
    found = (_VLLM_VERSION.search(line) for line in lines)
    return next((said.group("version") for said in found if said is not None), None)
