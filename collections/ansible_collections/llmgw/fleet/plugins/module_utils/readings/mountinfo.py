# SPDX-License-Identifier: BSD-2-Clause
"""Reads /proc/<pid>/mountinfo (proc(5)): what is mounted where.

Private to llmgw and pure. Optional fields come and go, and names may hold anything, so a line is split at single
blanks, which the kernel escapes in names, and nowhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

_ESCAPE = re.compile(r"\\([0-3][0-7]{2})")
_DEVICE = re.compile(r"[0-9]+:[0-9]+")
_BEFORE_DASH = 6
_AFTER_DASH = 2


@dataclass(frozen=True)
class Mount:
    """One line. `device` is `major:minor`, the same for every mount of one filesystem; `root` is what of it is shown.

    `options` are the mount's own and `super_options` the filesystem's.
    """

    target: str
    fstype: str
    source: str
    root: str
    device: str
    options: Tuple[str, ...] = ()
    super_options: Tuple[str, ...] = ()

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written through this mount."""
        return "ro" in self.options or "ro" in self.super_options


@dataclass(frozen=True)
class MountTable:
    """Every mount in the order of the text, so that of two on one place the later is on top."""

    total_lines: int
    mounts: Tuple[Mount, ...]


def read(text: str) -> MountTable:
    """The mounts in a text; a line that is cut off is counted and not read. Raises Unreadable when there is none."""
    lines = [line for line in (line.strip(" \t\r") for line in text.split("\n")) if line]
    found = tuple(mount for mount in (_mount(line) for line in lines) if mount is not None)
    if not found:
        raise Unreadable("no line of mountinfo: numbers, a device as major:minor, two paths, options, ' - ', a type")
    return MountTable(len(lines), found)


def _mount(line: str) -> Mount | None:
    before, separator, after = line.partition(" - ")
    left, right = before.split(" "), after.split(" ", 2)
    if not separator or len(left) < _BEFORE_DASH or len(right) < _AFTER_DASH or not _DEVICE.fullmatch(left[2]):
        return None
    return Mount(
        target=_decoded(left[4]),
        fstype=_decoded(right[0]),
        source=_decoded(right[1]),
        root=_decoded(left[3]),
        device=left[2],
        options=tuple(left[5].split(",")),
        super_options=tuple(_decoded(word) for word in right[2].split(",")) if len(right) > _AFTER_DASH else (),
    )


def _decoded(field: str) -> str:
    return _ESCAPE.sub(lambda escape: chr(int(escape.group(1), 8)), field)
