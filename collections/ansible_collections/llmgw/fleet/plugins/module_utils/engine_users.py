# SPDX-License-Identifier: BSD-2-Clause
"""Who on a node still needs a version of an engine: units, what llmgw would put back of them, and processes.

Private to llmgw. A path counts as used when it is named; whether the unit runs is not asked: it may be started again.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Iterator, List, Sequence

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_UNIT = (".service", ".service.d")


def used(host: Host, folders: Sequence[str], directories: Sequence[str]) -> List[str]:
    """Those of the folders that a text in one of the directories names, or a process's command line, sorted.

    A folder counts by its own path and by that behind symbolic links.
    """
    if not folders:
        return []
    patterns = {folder: _pattern(host, folder) for folder in folders}
    found: set[str] = set()
    for text in (*_texts(host, directories), *_command_lines(host)):
        found.update(folder for folder, pattern in patterns.items() if pattern.search(text))
    return sorted(found)


def _pattern(host: Host, folder: str) -> re.Pattern[str]:
    paths = sorted({folder, host.realpath(folder)})
    return re.compile(rf"(?:{'|'.join(map(re.escape, paths))})(?![^/\s\"'\0:;])")


def _texts(host: Host, directories: Sequence[str]) -> Iterator[str]:
    """Units and their drop-ins."""
    for directory in directories:
        for name in host.list(directory) or ():
            if name.endswith(_UNIT[0]):
                yield _text(host, f"{directory}/{name}")
            elif name.endswith(_UNIT[1]):
                for part in host.list(f"{directory}/{name}") or ():
                    yield _text(host, f"{directory}/{name}/{part}")


def _command_lines(host: Host) -> Iterator[str]:
    own = str(os.getpid())
    for name in host.list("/proc") or ():
        if name.isdigit() and name != own:
            yield _text(host, f"/proc/{name}/cmdline")


def _text(host: Host, path: str) -> str:
    return (host.read(path) or b"").decode("utf-8", "surrogateescape")
