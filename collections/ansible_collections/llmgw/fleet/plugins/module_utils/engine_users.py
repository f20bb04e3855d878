# SPDX-License-Identifier: BSD-2-Clause
"""Who on a node still needs a version of an engine: units, what llmgw would put back of them, and processes.

Private to llmgw. A path counts as used when it is named; whether the unit runs is not asked: it may be started again.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Collection, Iterator, List, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import storage_mounts
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_store import CURRENT

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_UNIT = (".service", ".service.d")
_OF_THE_HOST = ("9p", "virtiofs")
"""A virtual machine's own disk may be such a directory of its host, and then it is mostly its alone."""


def used(host: Host, folders: Sequence[str], directories: Sequence[str]) -> List[str]:
    """Those of the folders that a text in one of the directories names, or a process, sorted.

    A folder counts by its own path and by that behind symbolic links. A process that was started through the link
    `current` beside the folders may run any of them, for the link may have moved since: then all of them are used.
    """
    if not folders:
        return []
    patterns = {folder: _named({folder, host.realpath(folder)}) for folder in folders}
    parents = {folder: folder.rpartition("/")[0] for folder in folders}
    links = {
        parent: re.compile(
            "|".join(re.escape(f"{path}/{CURRENT}/") for path in sorted({parent, host.realpath(parent)}))
        )
        for parent in parents.values()
    }
    found: set[str] = set()
    for text in _texts(host, directories):
        found.update(folder for folder, pattern in patterns.items() if pattern.search(text))
    for text in _processes(host):
        through = {parent for parent, pattern in links.items() if pattern.search(text)}
        found.update(folder for folder in folders if parents[folder] in through or patterns[folder].search(text))
    return sorted(found)


def others_may_use(host: Host, directory: str) -> bool:
    """Whether other machines see this directory: who uses what is in it cannot be told from here."""
    mounts = storage_mounts.read_mounts(host) or ()
    mount = storage_mounts.holding(mounts, host.realpath(directory))
    if mount is None or mount.fstype in _OF_THE_HOST:
        return False
    return storage_mounts.is_shared(mounts, mount) is True


def _named(paths: Collection[str]) -> re.Pattern[str]:
    """Finds these paths, and not others that begin with them."""
    return re.compile(rf"(?:{'|'.join(map(re.escape, sorted(paths)))})(?![^/\s\"'\0:;])")


def _texts(host: Host, directories: Sequence[str]) -> Iterator[str]:
    """Units and their drop-ins, as systemd reads them."""
    for directory in directories:
        for name in host.list(directory) or ():
            if name.endswith(_UNIT[0]):
                yield _read_as_systemd(host, f"{directory}/{name}")
            elif name.endswith(_UNIT[1]):
                for part in host.list(f"{directory}/{name}") or ():
                    yield _read_as_systemd(host, f"{directory}/{name}/{part}")


def _read_as_systemd(host: Host, path: str) -> str:
    """A unit's text, in which `%%` and `$$` are one sign and `%h` is the home of the manager's user, and as it is."""
    text = _text(host, path)
    meant = {"%%": "%", "$$": "$", "%h": host.home()}
    return f"{text}\0{re.sub('%%|[$][$]|%h', lambda found: meant[found.group()], text)}"


def _processes(host: Host) -> Iterator[str]:
    """What each process was started as, and the program that it really is."""
    own = str(os.getpid())
    for name in host.list("/proc") or ():
        if name.isdigit() and name != own:
            yield f"{_text(host, f'/proc/{name}/cmdline')}\0{host.readlink(f'/proc/{name}/exe') or ''}"


def _text(host: Host, path: str) -> str:
    return (host.read(path) or b"").decode("utf-8", "surrogateescape")
