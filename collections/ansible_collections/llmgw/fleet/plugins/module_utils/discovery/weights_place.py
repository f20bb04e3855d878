# SPDX-License-Identifier: BSD-2-Clause
"""Where weights lie (D11, D12): below which model directory, on which filesystem, and whether others see them there.

Private to llmgw. A name is judged by its real path: a link on a local disk may lead to a share, and the reverse.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Iterable, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import storage_mounts
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.printable import printable
from ansible_collections.llmgw.fleet.plugins.module_utils.host import within

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils import contract
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_folder import Sighting
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import Reach
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
    from ansible_collections.llmgw.fleet.plugins.module_utils.readings.mountinfo import Mount


class Places:
    """The model directories of a node. `roots` are those to search: of two that are one by a link, the first.

    `hanging` are those that gave no answer; of several on one mount only the first was asked.
    """

    def __init__(
        self,
        host: Host,
        directories: Iterable[str],
        filesystems: Iterable[contract.Filesystem],
        answer_s: float,
    ) -> None:
        self._host = host
        self._filesystems = tuple(filesystems)
        self._listed: Sequence[Mount] = storage_mounts.read_mounts(host) or ()
        self._real: dict[str, str] = {}
        dead: set[str] = set()
        hanging = []
        for root in sorted({directory.rstrip("/") or "/" for directory in directories}):
            mount = storage_mounts.reached(host, self._listed, root)
            place = root if mount is None else mount.device
            real = None if place in dead else _real(host, root, answer_s)
            if real is None:
                dead.add(place)
                hanging.append(root)
            else:
                self._real[root] = real
        first = {real: root for root, real in sorted(self._real.items(), reverse=True)}
        self.roots = tuple(sorted(first.values()))
        self.hanging = tuple(hanging)

    def device(self, path: str) -> str:
        """The device of the mount that a path below a model directory is on; the path where mounts are unknown."""
        mount = storage_mounts.holding(self._listed, self._without_links(path))
        return path if mount is None else mount.device

    def placed(self, reach: Reach, sighting: Sighting) -> Sighting:
        """The weights with the name that their place gives them, and with their filesystem."""
        weights = sighting.weights
        real = self._without_links(weights.path) if sighting.link is None else reach.realpath(sighting.link)
        mount_point, shared = self._filesystem(real)
        name = weights.model or self._name(weights.path)
        return sighting._replace(weights=replace(weights, model=name, mount_point=mount_point, shared=shared))

    def _filesystem(self, real: str) -> tuple[str | None, bool | None]:
        mount = storage_mounts.holding(self._listed, real)
        if mount is not None and mount.fstype == "autofs":
            # The search itself has mounted it.
            self._listed = storage_mounts.read_mounts(self._host) or self._listed
            mount = storage_mounts.holding(self._listed, real)
        if mount is not None:
            entry = storage_mounts.entry_of(mount, self._listed, self._filesystems)
            shared = storage_mounts.is_shared(self._listed, mount)
            return entry.mount_point if entry else printable(mount.target), shared
        for entry in self._filesystems:
            if any(self._is_below(real, directory) for directory in entry.directories if directory != "/"):
                return entry.mount_point, entry.shared
        return None, None

    def _name(self, path: str) -> str:
        """The path below the outermost model directory: `org/name`, where models are kept so."""
        root = next((root for root in self._real if self._is_below(path, root)), "/")
        return path[len(root) :].strip("/") or path.rsplit("/", 1)[-1]

    def _without_links(self, path: str) -> str:
        """The real path: no directory below a model directory is entered through a link."""
        root = next((root for root in reversed(list(self._real)) if self._is_below(path, root)), None)
        return path if root is None else f"{self._real[root].rstrip('/')}/{path[len(root) :].lstrip('/')}".rstrip("/")

    @staticmethod
    def _is_below(path: str, root: str) -> bool:
        return path == root or path.startswith(f"{root.rstrip('/')}/")


def _real(host: Host, path: str, seconds: float) -> str | None:
    """The path without links; None when there is no answer."""
    try:
        return within(seconds, lambda: host.realpath(path))
    except TimeoutError:
        return None
