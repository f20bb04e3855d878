# SPDX-License-Identifier: BSD-2-Clause
"""Filesystems (D11) and the weights on them (D12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple


@dataclass(frozen=True)
class Filesystem:
    """One mounted filesystem that matters (D11): holds a model directory, the state directory or the root."""

    mount_point: str
    source: Optional[str] = None
    type: Optional[str] = None
    total_bytes: Optional[int] = None
    free_bytes: Optional[int] = None
    shared: Optional[bool] = None
    read_only: Optional[bool] = None
    transport: Optional[str] = None  # of the block device below: pcie, rdma, tcp, fc, sata, ...
    remote: Optional[bool] = None  # its device is reached over a network: not shared, and as fast as that network
    answers: Optional[bool] = None  # False: it hangs
    directories: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Weights:
    """Weights of one model seen in a model directory (D12); `complete` is None when it could not be judged."""

    model: str
    path: str
    layout: Optional[str] = None  # hf-cache | directory | gguf
    revision: Optional[str] = None
    size_bytes: Optional[int] = None
    complete: Optional[bool] = None
    missing: Tuple[str, ...] = ()  # the first of them, when there are many
    missing_count: Optional[int] = None
    files: Optional[int] = None
    tensor_bytes: Optional[int] = None  # sum of the tensors, from the headers
    mount_point: Optional[str] = None
    shared: Optional[bool] = None
