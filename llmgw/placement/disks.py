# SPDX-License-Identifier: Apache-2.0
"""Disk space that weights still to be fetched will fill, promised once a filesystem (P1, D11).

Two directories on one disk are one pool of bytes, and a shared filesystem is one for all nodes that mount it. Replicas
of one model that read the same filesystem need its weights there once.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass

from llmgw.model.node import Node
from llmgw.model.replica import ModelSpec, ProfileSpec
from llmgw.nodekit import contract
from llmgw.placement.fetch_place import begun_bytes, fetch_place
from llmgw.placement.memory.model_facts import ModelFacts

Key = tuple[str, ...]
"""What makes two filesystems the same one: the source of a shared one, node and mount point of any other."""


@dataclass(frozen=True, slots=True)
class Room:
    """Free bytes for one model on the filesystem that has the most of them."""

    free_bytes: int
    filesystem: Key
    mount_point: str


def disk_bytes(profile: ProfileSpec, models: ModelFacts) -> int | None:
    """Bytes of free disk that a member needs where the weights are not: what the profile asks for, and at least what
    llmgw fetches, if it does and the size is known.
    """
    tensors = models.known(profile.model).tensors if profile.model.fetch else None
    if tensors is None:
        return profile.min_free_disk_bytes
    return max(int(tensors.bytes.likely), profile.min_free_disk_bytes or 0)


class Disks:
    """Promises of disk space in the whole fleet. Mutable and short-lived, as ledgers are."""

    def __init__(self) -> None:
        self._total: dict[Key, int] = {}
        self._models: dict[tuple[Key, str], list[int]] = {}
        """What replicas of a model need on a filesystem, ascending: the most of it is promised once."""
        self._places: dict[tuple[str, bool], tuple[tuple[Key, contract.Filesystem], ...]] = {}
        self._begun: dict[tuple[str, str], int] = {}

    def room(self, node: Node, model: ModelSpec, *, at_first: tuple[Key, int] | None = None) -> Room | None:
        """The most space that weights of a model can have on a node; None where storage is unknown (D11). Weights that
        llmgw fetches have one place on a node. `at_first`: a filesystem that is taken before all others if so many
        bytes are free there.
        """
        best: Room | None = None
        for key, filesystem in self._filesystems(node, fetched=model.fetch):
            own = self._models.get((key, model.name), (0,))[-1]
            free = (filesystem.free_bytes or 0) - self._total.get(key, 0) + own
            room = Room(free, key, filesystem.mount_point)
            if at_first is not None and key == at_first[0] and free >= at_first[1]:
                return room
            if best is None or free > best.free_bytes:
                best = room
        return best

    def most(self, node: Node) -> int | None:
        """The most bytes that are free on one filesystem of a node, whatever was promised; None: unknown."""
        return max((one.free_bytes or 0 for _, one in self._filesystems(node, fetched=False)), default=None)

    def begun(self, node: Node, model: ModelSpec) -> int:
        """Bytes of the model that a fetch has brought already: it goes on with the rest."""
        if not model.fetch:
            return 0
        known = self._begun.get((node.name, model.name))
        if known is None:
            known = self._begun[node.name, model.name] = begun_bytes(node, model)
        return known

    def promise(self, key: Key, model: str, needs: int) -> None:
        """Promise `needs` bytes for a model on a filesystem; more replicas of it that need no more take nothing."""
        entry = self._models.setdefault((key, model), [])
        before = entry[-1] if entry else 0
        insort(entry, needs)
        self._total[key] = self._total.get(key, 0) + entry[-1] - before

    def release(self, key: Key, model: str, needs: int) -> None:
        """Take one replica's promise back: what the others need stays promised."""
        entry = self._models[key, model]
        before = entry[-1]
        entry.remove(needs)
        self._total[key] -= before - (entry[-1] if entry else 0)
        if not entry:
            del self._models[key, model]

    def _filesystems(self, node: Node, *, fetched: bool) -> tuple[tuple[Key, contract.Filesystem], ...]:
        known = self._places.get((node.name, fetched))
        if known is None:
            known = self._places[node.name, fetched] = tuple(_fetching(node) if fetched else _places(node))
        return known


def _places(node: Node) -> Iterator[tuple[Key, contract.Filesystem]]:
    """Where weights can be written: what holds the node's model directories, or any filesystem where none is known."""
    usable = [
        one
        for one in (node.facts.filesystems or () if node.facts else ())
        if one.free_bytes is not None and not one.read_only and one.answers is not False
    ]
    holding = [one for one in usable if set(one.directories) & set(node.settings.model_dirs)]
    for one in holding or usable:
        yield _key(node, one), one


def _fetching(node: Node) -> Iterator[tuple[Key, contract.Filesystem]]:
    """The one filesystem that llmgw fetches weights to."""
    one = fetch_place(node).filesystem
    if one is not None and one.free_bytes is not None and not one.read_only and one.answers is not False:
        yield _key(node, one), one


def _key(node: Node, one: contract.Filesystem) -> Key:
    return ("shared", one.source) if one.shared and one.source else (node.name, one.mount_point)
