# SPDX-License-Identifier: BSD-2-Clause
"""Writes files so that a reader, or a machine that loses power, sees the whole old or the whole new content.

Private to llmgw. Temporary files lie in the same directory and start with a dot, so that no one takes a half-written
one for a unit.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write(path: str, content: bytes, mode: int, *, group_of_directory: bool = False) -> None:
    """Replaces a file's content in one step and brings it to disk; `mode` is set whatever the umask. Raises OSError.

    `group_of_directory`: the file gets the group of the directory it lies in, for readers that are not root.
    """
    put(stage(path, content, mode, group_of_directory=group_of_directory), path)


def stage(path: str, content: bytes, mode: int, *, group_of_directory: bool = False) -> str:
    """Brings new content to disk beside a file, which stays as it is; returns where, for `put` or `drop`.

    Whatever space it takes is taken here. Raises OSError, which names the file, and leaves nothing then.
    """
    directory = str(Path(path).parent)
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{Path(path).name}.", dir=directory)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            group = Path(directory).stat().st_gid
            if group_of_directory and group != os.fstat(stream.fileno()).st_gid:
                os.fchown(stream.fileno(), -1, group)
            os.fchmod(stream.fileno(), mode)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException as error:
        if temporary is not None:
            drop(temporary)
        if isinstance(error, OSError) and error.filename in {None, temporary}:
            error.filename = path  # a full disk does not say which
        raise
    return temporary


def put(temporary: str, path: str) -> None:
    """Makes staged content that of the file, in one step. Raises OSError, which names the file."""
    try:
        Path(temporary).replace(path)
    except OSError as error:
        drop(temporary)
        error.filename = path
        raise
    _sync(str(Path(path).parent))


def drop(temporary: str) -> None:
    """Forgets staged content."""
    with contextlib.suppress(OSError):
        Path(temporary).unlink()


def remove(path: str) -> bool:
    """Deletes a file and says whether it was there. Raises OSError when it is there and cannot be deleted."""
    try:
        Path(path).unlink()
    except FileNotFoundError:
        return False
    _sync(str(Path(path).parent))
    return True


def _sync(directory: str) -> None:
    """Brings a directory's entries to disk: without it a rename may be lost although the file's data is safe."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
