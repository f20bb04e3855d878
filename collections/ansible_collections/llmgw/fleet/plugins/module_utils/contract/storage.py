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
    transport: Optional[str] = None  # of the block device below (pcie, sata, rdma, tcp, fc, ...) or of the share
    remote: Optional[bool] = None  # its device is reached over a network: not shared, and as fast as that network
    answers: Optional[bool] = None  # False: it hangs, or has nothing but errors
    directories: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Weights:
    """Weights of one model seen in a model directory (D12); `complete` is None when it could not be judged.

    `model` is a Hugging Face id where the layout has it, else the path below the model directory, and a file's name for
    GGUF. Of several formats side by side only the one that an engine loads is counted.
    """

    model: str
    path: str  # what an engine is given: a directory, or the first file of a GGUF
    layout: Optional[str] = None  # hf-cache | directory | gguf | ollama
    revision: Optional[str] = None  # commit
    size_bytes: Optional[int] = None  # of the weight files that are there
    complete: Optional[bool] = None
    missing: Tuple[str, ...] = ()  # the first of them, when there are many
    missing_count: Optional[int] = None
    files: Optional[int] = None  # weight files that are there
    tensor_bytes: Optional[int] = None  # sum of the tensors, from the headers
    mount_point: Optional[str] = None
    shared: Optional[bool] = None
    format: Optional[str] = None  # safetensors | gguf | pytorch
    repository: Optional[str] = None  # Hugging Face id of the repository that a GGUF file was fetched from
    refs: Tuple[str, ...] = ()  # branches and tags that name this commit here
