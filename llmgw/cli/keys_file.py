# SPDX-License-Identifier: Apache-2.0
"""The catalog's files as `llmgw keys` reads them, and one of them replaced: whole, checked before, or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from llmgw.catalog.compile import Compiled, File, compile_catalog
from llmgw.catalog.load import Sources, read
from llmgw.errors import LlmgwError

FILE_CODE = "key-file"


def read_catalog(catalog: Path | None, inventory: Path) -> tuple[Sources, Compiled]:
    """The files of the catalog that is named, or lies beside the inventory, and what they mean. Raises LlmgwErrors
    where it is wrong already.
    """
    beside = inventory.parent if inventory.is_file() or inventory.suffix else inventory
    sources = read(catalog or beside)
    return sources, compile_catalog(sources.files, sources.overlays)


def replace_file(sources: Sources, file: File, content: bytes, names: Collection[str]) -> Compiled:
    """What the catalog means with that content in one of its files, which is written only if it is sound as a whole and
    has the keys of these names and no others.

    Raises LlmgwErrors, and then nothing was changed.
    """
    files, overlays = (
        [replace(one, content=content) if one is file else one for one in part]
        for part in (sources.files, sources.overlays)
    )
    after = compile_catalog(files, overlays)
    if {key.name for key in after.catalog.gateway.keys} != set(names):
        why = "with an overlay over it, the catalog would have other keys than it should"
        raise LlmgwError(FILE_CODE, why, where=file.path, fix="Look for `keys` in the overlays; edit them yourself.")
    # Through a link the file that it leads to is replaced, and the link stays.
    path = Path(file.path).resolve()
    try:
        with _alone(path.parent):
            if path.read_bytes() != file.content:
                fix = "Nothing was changed here. Do it again."
                raise LlmgwError(FILE_CODE, "somebody has just changed this file", where=file.path, fix=fix)
            _write(path, content)
    except OSError as error:
        why = f"the file cannot be written: {(error.strerror or type(error).__name__).lower()}"
        fix = "Nothing was changed. Make sure that you may write to it and into its directory, and that there is room."
        raise LlmgwError(FILE_CODE, why, where=file.path, fix=fix) from error
    return after


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other call looks at a file there and replaces it meanwhile: else of two keys that are made at once, both
    shown, one could be lost. Where the file system has no locks, it goes on without.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(path: Path, content: bytes) -> None:
    """Replaces the file in one step; mode and owner stay. What is written beside it has a dot before its name, so that
    nobody takes it for a part of the catalog.
    """
    before = path.stat()
    if not os.access(path, os.W_OK):
        # A rename would pass over the file's own protection.
        raise PermissionError(None, "permission denied", str(path))
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            with contextlib.suppress(PermissionError):
                os.fchown(stream.fileno(), before.st_uid, before.st_gid)
            os.fchmod(stream.fileno(), stat.S_IMODE(before.st_mode))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
