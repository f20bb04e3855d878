# SPDX-License-Identifier: Apache-2.0
"""Where an inventory sets a host variable, for whoever has to change it: Ansible tells its value, not its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_LARGEST = 1_000_000
_MOST = 200


def places(inventory: Path, host: str, variable: str) -> tuple[str, ...]:
    """`inventory/host_vars/n1.yml:3` for each line that sets the variable for that host, or for a group, or in the
    inventory file; those of the host first. Empty where it is set in another way, as by a plugin.
    """
    sets = re.compile(rf"""(?:^|[\s{{,"'])(?:{re.escape(variable)})["']?\s*[:=]""")
    found: dict[str, None] = {}
    for number, path in enumerate(_files(inventory, host)):
        if number >= _MOST:
            break
        for line, text in enumerate(_lines(path), 1):
            if sets.search(text) and not text.lstrip().startswith("#"):
                found[f"{path}:{line}"] = None
    return tuple(found)


def _files(inventory: Path, host: str) -> Iterator[Path]:
    base = inventory.parent
    own = base / "host_vars"
    # A host's name may hold what is no part of a file's name: it is compared, never joined to a path.
    for entry in sorted(own.iterdir()) if own.is_dir() else ():
        if entry.name == host or (entry.stem == host and entry.suffix in {".yml", ".yaml", ".json"}):
            yield from sorted(entry.rglob("*")) if entry.is_dir() else [entry]
    yield inventory
    groups = base / "group_vars"
    yield from sorted(groups.rglob("*")) if groups.is_dir() else ()


def _lines(path: Path) -> list[str]:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return []
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
