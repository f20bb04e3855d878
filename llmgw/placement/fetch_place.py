# SPDX-License-Identifier: Apache-2.0
"""Where a node fetches weights to, and which nodes would fetch to the same place (D11, D12)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from llmgw.engines.weights_path import first_model_dir
from llmgw.fleet.weights import held, usable
from llmgw.model.node import Node
from llmgw.model.replica import ModelSpec
from llmgw.nodekit import contract

Key = tuple[str, ...]
"""Equal for one place: source of the shared filesystem and path in it, else node and directory."""


@dataclass(frozen=True, slots=True)
class FetchPlace:
    """The directory, and the filesystem that it is on, None where that is unknown."""

    directory: str
    key: Key
    filesystem: contract.Filesystem | None = None

    @property
    def shared(self) -> bool:
        """Whether other nodes may have the same place."""
        return self.key[0] == _SHARED


_SHARED = "shared"


def fetch_place(node: Node) -> FetchPlace:
    """Where the node fetches weights to: its first model directory."""
    directory = first_model_dir(node)
    filesystem = _filesystem(node, directory)
    if filesystem is not None and filesystem.shared and filesystem.source:
        inside = _inside(directory, filesystem.mount_point)
        return FetchPlace(directory, (_SHARED, filesystem.source, inside or "."), filesystem)
    return FetchPlace(directory, ("local", node.name, directory), filesystem)


def has_there(node: Node, model: ModelSpec, place: FetchPlace) -> bool:
    """Whether the node sees weights of the model that an engine can be given, in this place of a shared filesystem."""
    for one in usable(model, _seen(node)):
        filesystem = _filesystem(node, one.path)
        if filesystem is None or not filesystem.shared or filesystem.source != place.key[1]:
            continue
        inside = _inside(one.path, filesystem.mount_point)
        if inside is not None and _inside(f"/{inside}", f"/{place.key[2]}".rstrip(".")) is not None:
            return True
    return False


def begun_bytes(node: Node, model: ModelSpec) -> int:
    """Bytes of the model that an earlier fetch to the node's place has brought, as far as whole files tell."""
    directory = first_model_dir(node)
    begun = [one for one in held(model, _seen(node)) if one.complete is False and _inside(one.path, directory)]
    return max((one.size_bytes or 0 for one in begun), default=0)


def _seen(node: Node) -> tuple[contract.Weights, ...]:
    return (node.facts.weights or ()) if node.facts else ()


def _filesystem(node: Node, path: str) -> contract.Filesystem | None:
    """The filesystem that is known to hold the path, else the one that is mounted nearest above it."""
    known = (node.facts.filesystems or ()) if node.facts else ()
    named = [one for one in known if path in one.directories]
    above = [one for one in known if _inside(path, one.mount_point) is not None]
    return max(named or above, key=lambda one: len(one.mount_point), default=None)


def _inside(path: str, folder: str) -> str | None:
    """The path from a folder on; None when it is elsewhere."""
    whole, start = PurePosixPath(path), PurePosixPath(folder or "/")
    return str(whole.relative_to(start)) if whole.is_relative_to(start) else None
