# SPDX-License-Identifier: BSD-2-Clause
"""The machine itself (D10) and the engines installed on it (D13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple


@dataclass(frozen=True)
class NetworkInterface:
    """An interface that has addresses; those that are valid on one link alone are not among them."""

    name: str
    addresses: Tuple[str, ...] = ()
    up: Optional[bool] = None  # switched on, with a carrier
    speed_mbps: Optional[int] = None


@dataclass(frozen=True)
class System:
    """The operating system and its service manager."""

    hostname: Optional[str] = None
    os: Optional[str] = None
    os_version: Optional[str] = None
    kernel: Optional[str] = None
    architecture: Optional[str] = None
    boot_id: Optional[str] = None
    booted_at: Optional[float] = None
    clock: Optional[float] = None
    python_version: Optional[str] = None
    systemd_version: Optional[int] = None
    scope: Optional[str] = None  # system | user
    journal: Optional[bool] = None  # whether units can log to journald
    ephemeral_ports: Optional[Tuple[int, int]] = None
    listening_ports: Optional[Tuple[int, ...]] = None
    interfaces: Optional[Tuple[NetworkInterface, ...]] = None


@dataclass(frozen=True)
class Memory:
    """Host memory (D10)."""

    total_bytes: Optional[int] = None
    available_bytes: Optional[int] = None


@dataclass(frozen=True)
class Cpu:
    """Processors (D10); flags are those engines ask about (avx2, avx512f, amx_tile, ...)."""

    model: Optional[str] = None
    sockets: Optional[int] = None
    cores: Optional[int] = None
    threads: Optional[int] = None
    numa_nodes: Optional[int] = None
    flags: Optional[Tuple[str, ...]] = None


@dataclass(frozen=True)
class Engine:
    """One engine that is installed (D13); `runnable` is None when it was not tried."""

    kind: str  # vllm | sglang | llama.cpp | sim
    command: Tuple[str, ...]
    version: Optional[str] = None
    runnable: Optional[bool] = None
    reason: Optional[str] = None
