# SPDX-License-Identifier: BSD-2-Clause
"""Puts the guard where units run it (R7): its program, `guard.py`, in the state directory.

Private to llmgw. Written when it or its mode differs, before a unit that names it starts. What runs keeps the program
that it was started with, so a new version alone restarts nothing and is no change of the host.
"""

from __future__ import annotations

import inspect
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Iterable

from ansible_collections.llmgw.fleet.plugins.module_utils import atomic, guard

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_NAME = "guard.py"
_MODE = 0o644  # units run it as the engines' user


def place(host: Host, state_dir: str, texts: Iterable[str]) -> None:
    """Brings the program up to date if one of the units' texts names it. Raises OSError when it cannot be written."""
    path = f"{state_dir}/{_NAME}"
    if any(f"/{_NAME}" in text for text in texts) and not (host.read(path) == source() and _mode(path) == _MODE):
        atomic.write(path, source(), _MODE)


def is_in_group(text: str) -> bool:
    """Whether a unit's text runs the program as the parent of its engine, as members of a group do."""
    return re.search(rf"^ExecStart=.*/{re.escape(_NAME)} (?:.* )?--group ", text, re.MULTILINE) is not None


def _mode(path: str) -> int | None:
    try:
        return stat.S_IMODE(Path(path).stat().st_mode)
    except OSError:
        return None


def source() -> bytes:
    """The program's text, also where the modules lie in a zip file, as Ansible brings them to a node."""
    return inspect.getsource(guard).encode("utf-8")
