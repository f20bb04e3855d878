# SPDX-License-Identifier: BSD-2-Clause
"""Why a file could not be written, so that whoever reads it knows which disk to look at (Q2). Private to llmgw."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_FULL = (errno.ENOSPC, errno.EDQUOT)
_MIB = 1024 * 1024


class UnwrittenError(Exception):
    """What a run needs could not be written, and nothing was stopped or changed for it; the message is for people."""


def why(host: Host, error: OSError) -> str:
    """A sentence, without its full stop, that names the file, what is wrong, and for a full disk how full it is."""
    path = str(error.filename) if error.filename is not None else None
    if error.errno not in _FULL:
        said = error.strerror or str(error)
        return f"{path} cannot be written: {said}" if path and error.errno == errno.EROFS else f"{path or '?'}: {said}"
    what = "the disk" if error.errno == errno.ENOSPC else "the quota on the disk"
    return f"{path or 'a file'} cannot be written: {what} is full{_space(host, path)}"


def remedy(error: OSError) -> str:
    """What to do about it, as a sentence."""
    if error.errno in _FULL:
        place = _existing(str(error.filename)) if error.filename is not None else "/"
        return f"Free space on this host (`df -h {place}` and `df -i {place}` show what is left), then apply again."
    return "Mend that on this host, then apply again."


def _space(host: Host, path: str | None) -> str:
    """How much of the file's disk is left, in parentheses; nothing when that is not known."""
    space = host.statfs(_existing(path)) if path else None
    if space is None:
        return ""
    total, free = space
    return f" ({free // _MIB} of {total // _MIB} MiB are free in {_existing(path or '/')})"


def _existing(path: str) -> str:
    """The nearest directory above a file that is there."""
    return next((str(one) for one in Path(os.path.abspath(path)).parents if one.is_dir()), "/")
