# SPDX-License-Identifier: BSD-2-Clause
"""Whether files fit on the filesystem that they are really written to (D11, D12). Private to llmgw."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Optional

GB = 10**9


@dataclass(frozen=True)
class Room:
    """What is free and what is needed, in bytes, and where the filesystem is mounted."""

    mount_point: str
    has: int
    needs: int
    margin: int

    @property
    def lacks(self) -> Optional[str]:
        """A sentence when it is too small, with what is missing; None when it is enough."""
        if self.needs == 0 or self.has >= self.needs + self.margin:
            return None
        short = self.needs + self.margin - self.has
        return (
            f"{self.mount_point} has {gb(self.has)} free and needs {gb(self.needs)} for what is still to fetch and "
            f"{gb(self.margin)} to spare: {gb(short)} are missing"
        )


def look(directory: str, needs: Iterable[Optional[int]], margin: int) -> Room:
    """The room that a directory which may not be there yet has for files of these sizes. Raises OSError.

    Files whose size nobody tells count as nothing: a disk that they fill is still said to be full when it is.
    """
    real = real_directory(directory)
    stats = os.statvfs(real)
    return Room(_mount_point(real), stats.f_bavail * stats.f_frsize, sum(size or 0 for size in needs), margin)


def real_directory(path: str) -> str:
    """The nearest directory above that is there, without links: the filesystem that will be filled."""
    real = Path(os.path.realpath(path))
    while not real.is_dir():
        real = real.parent
    return str(real)


def _mount_point(real: str) -> str:
    path = Path(real)
    while not os.path.ismount(path):
        path = path.parent
    return str(path)


def gb(size: int) -> str:
    """A number of bytes for people, in GB or MB."""
    return f"{size / GB:.1f} GB" if size >= GB else f"{size / 10**6:.1f} MB"
