# SPDX-License-Identifier: BSD-2-Clause
"""What llmgw runs on a node, and engines it does not own (D14)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple


@dataclass(frozen=True)
class EngineMemory:
    """What an engine said of one device's memory when it started (P13): the first rank's, in its log's own terms."""

    weights_mib: Optional[int] = None
    kv_cache_mib: Optional[int] = None
    kv_cache_tokens: Optional[int] = None  # of the whole replica
    graphs_mib: Optional[int] = None
    source: Optional[str] = None  # engine and version whose log it was: `vllm 0.33.0`


@dataclass(frozen=True)
class ObservedUnit:
    """One llmgw unit on the node (D14). Digests: `unitfile.py` says what each covers.

    `process_digest` and `text_digest` are what the header claims, `actual_text_digest` is computed from the file,
    `running_digest` is what the running main process was started with (None: not running or unreadable).
    """

    name: str
    replica: Optional[str] = None
    rank: Optional[int] = None
    members: Optional[int] = None
    profile: Optional[str] = None
    model: Optional[str] = None
    engine: Optional[str] = None
    served_name: Optional[str] = None
    address: Optional[str] = None
    port: Optional[int] = None
    devices: Tuple[str, ...] = ()
    active_state: Optional[str] = None  # systemd's: active, activating, deactivating, failed, inactive
    sub_state: Optional[str] = None
    result: Optional[str] = None
    enabled: Optional[bool] = None
    since: Optional[float] = None
    restarts: Optional[int] = None
    main_pid: Optional[int] = None
    memory_bytes: Optional[int] = None
    memory_min_bytes: Optional[int] = None
    ready: Optional[bool] = None
    process_digest: Optional[str] = None
    running_digest: Optional[str] = None
    text_digest: Optional[str] = None
    actual_text_digest: Optional[str] = None
    edited: Optional[bool] = None
    needs_reload: Optional[bool] = None  # the file changed after systemd read it
    generation: Optional[int] = None
    text: Optional[str] = None
    memory_report: Optional[EngineMemory] = None
    state: Optional[str] = None  # starting, loading, ready, draining, failed (R6); None: it does not run, or unknown
    state_since: Optional[float] = None
    deadline: Optional[float] = None  # Unix seconds, when the state must have ended
    reason: Optional[str] = None  # a sentence about the state, without its full stop
    progress: Optional[float] = None  # 0 to 1: how much of its start is behind it


@dataclass(frozen=True)
class ForeignEngine:
    """An engine process that no llmgw unit owns; it is named, blocks its devices and is never killed (D14)."""

    pid: int
    name: str
    devices: Tuple[str, ...] = ()
