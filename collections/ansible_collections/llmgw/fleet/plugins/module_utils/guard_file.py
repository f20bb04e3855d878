# SPDX-License-Identifier: BSD-2-Clause
"""Puts the guard where units run it (R7): its program, `guard.py`, in the state directory.

Private to llmgw. Written when it differs, before a unit that names it starts. What runs keeps the program that it was
started with, so a new version alone restarts nothing and is no change of the host.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Iterable

from ansible_collections.llmgw.fleet.plugins.module_utils import atomic, guard

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_NAME = "guard.py"
_MODE = 0o644  # units run it as the engines' user


def place(host: Host, state_dir: str, texts: Iterable[str]) -> None:
    """Brings the program up to date if one of the units' texts names it. Raises OSError when it cannot be written."""
    path = f"{state_dir}/{_NAME}"
    if any(f"/{_NAME}" in text for text in texts) and host.read(path) != source():
        atomic.write(path, source(), _MODE)


def source() -> bytes:
    """The program's text, also where the modules lie in a zip file, as Ansible brings them to a node."""
    return inspect.getsource(guard).encode("utf-8")
