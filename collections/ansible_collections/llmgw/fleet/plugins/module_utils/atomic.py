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
    directory = str(Path(path).parent)
    handle, temporary = tempfile.mkstemp(prefix=f".{Path(path).name}.", dir=directory)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            group = Path(directory).stat().st_gid
            if group_of_directory and group != os.fstat(stream.fileno()).st_gid:
                os.fchown(stream.fileno(), -1, group)
            os.fchmod(stream.fileno(), mode)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        if isinstance(error, OSError) and error.filename is None:
            error.filename = path  # a full disk does not say which
        raise
    _sync(directory)


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
