# SPDX-License-Identifier: BSD-2-Clause
"""Which weights lie in the model directories of a node (D12): GGUF files.

Private to llmgw. The search is bounded in depth and number, since a model directory may be the root of a large share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, Iterator

from ansible_collections.llmgw.fleet.plugins.module_utils import contract

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_MAGIC = b"GGUF"
_SUFFIX = ".gguf"
_DEPTH = 3
_ENTRIES = 20000


def read_weights(
    host: Host, directories: Iterable[str], filesystems: Iterable[contract.Filesystem]
) -> tuple[contract.Weights, ...]:
    """The GGUF files under these directories, by path; a directory inside another is searched once.

    `complete` stays unknown: the magic is in the first bytes, and an interrupted copy has it too.
    """
    mounts = tuple(filesystems)
    found: dict[str, contract.Weights] = {}
    for directory in directories:
        filesystem = next((mount for mount in mounts if directory in mount.directories), None)
        for path in _gguf_files(host, directory):
            size = host.size(path)
            if size and path not in found and host.read(path, len(_MAGIC)) == _MAGIC:
                found[path] = contract.Weights(
                    model=path.rsplit("/", 1)[-1],
                    path=path,
                    layout="gguf",
                    size_bytes=size,
                    mount_point=filesystem.mount_point if filesystem else None,
                    shared=filesystem.shared if filesystem else None,
                )
    return tuple(found[path] for path in sorted(found))


def _gguf_files(host: Host, root: str) -> Iterator[str]:
    """Paths with the suffix, level by level; directories that are links are not entered."""
    left = _ENTRIES
    level = [root.rstrip("/") or "/"]
    for _depth in range(_DEPTH):
        deeper: list[str] = []
        for directory in level:
            for name in host.list(directory) or ():
                left -= 1
                if left < 0:
                    return
                path = f"{directory.rstrip('/')}/{name}"
                if name.endswith(_SUFFIX):
                    yield path
                elif host.readlink(path) is None and host.is_directory(path):
                    deeper.append(path)
        level = deeper
