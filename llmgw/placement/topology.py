# SPDX-License-Identifier: Apache-2.0
"""Which of a node's free devices a replica gets: joined by NVLink first, then on one NUMA node, then near the network
adapters of its fabric, and of equal choices the one that leaves most whole (P4, P10).

Devices are positions in the node's list; sets of them are bit masks, so that equal nodes share every answer. Choosing
k of n looks at every subset while there are at most `EXHAUSTIVE` of them (all of 8, 4 of 16); beyond, at runs of
devices sorted by what joins them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb

from llmgw.model.node import Device

EXHAUSTIVE = 2000
DISTANCES = {"PIX": 0, "PXB": 1, "PHB": 2, "NODE": 3, "SYS": 4}
"""Steps from a card to a network adapter, as `nvidia-smi topo -m` names them (D6)."""
UNKNOWN_DISTANCE = 4
UNKNOWN_QUALITY = 0.5
_LINKS, _SOCKETS = 0.6, 0.4


@dataclass(frozen=True, slots=True)
class Links:
    """How the devices of one node are joined: a mask of NVLink peers and a NUMA node for each; None: unknown."""

    peers: tuple[int | None, ...]
    numa: tuple[int | None, ...]

    @property
    def known(self) -> bool:
        """Whether anything is known that tells one choice of devices from another."""
        return any(peers is not None for peers in self.peers) or any(node is not None for node in self.numa)


@dataclass(frozen=True, slots=True)
class Choice:
    """Positions in the order in which the engine numbers them, how well they are joined in [0, 1], and how many free
    devices are left beside them in the islands that they break.
    """

    positions: tuple[int, ...]
    quality: float
    beside: int


def links_of(devices: Sequence[Device]) -> Links:
    """The links among the devices of a node. MIG instances reach no other device (domain.md E)."""
    position = {device.uuid: number for number, device in enumerate(devices)}
    peers: list[int | None] = []
    for device in devices:
        known = device.nvlink_peers
        mask = 0
        for peer in known or ():
            mask |= 1 << position[peer] if peer in position else 0
        peers.append(0 if device.mig else None if known is None else mask)
    return Links(tuple(peers), tuple(device.numa_node for device in devices))


def distance(device: Device, adapters: Iterable[str]) -> int:
    """Steps from a device to the nearest of these adapters; unknown counts as the farthest."""
    wanted = set(adapters)
    found = [DISTANCES.get(path.distance, UNKNOWN_DISTANCE) for path in device.nic_paths or () if path.device in wanted]
    return min(found, default=UNKNOWN_DISTANCE)


@lru_cache(maxsize=1 << 16)
def choose(links: Links, free: int, count: int, tensor_parallel: int, near: tuple[int, ...] | None = None) -> Choice:
    """The best `count` of the `free` devices (there are that many); each run of `tensor_parallel` of them is one group
    whose traffic matters most. `near`: steps of every device to its fabric's adapters, where members share one.
    """
    order = _sorted([position for position in range(len(links.numa)) if free >> position & 1], links)
    best: tuple[tuple[float, ...], tuple[int, ...]] | None = None
    for positions in _subsets(order, count):
        rank = _rank(links, free, positions, tensor_parallel, near)
        if best is None or rank > best[0]:
            best = rank, positions
    if best is None:
        raise ValueError(f"{count} devices of {free.bit_count()}")
    positions = best[1]
    return Choice(positions, _quality(links, positions, tensor_parallel), _beside(links, free, positions))


def _subsets(order: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    if comb(len(order), count) <= EXHAUSTIVE:
        yield from combinations(order, count)
    else:
        for start in range(len(order) - count + 1):
            yield tuple(order[start : start + count])


def _sorted(positions: Iterable[int], links: Links) -> list[int]:
    """Devices of one island after another, so that runs of them are groups."""
    island = _islands(links)
    return sorted(positions, key=lambda one: (island[one], _numa_key(links.numa[one]), one))


def _numa_key(node: int | None) -> tuple[bool, int]:
    return (node is None, node or 0)


@lru_cache(maxsize=1024)
def _islands(links: Links) -> tuple[int, ...]:
    """For every device the lowest position that NVLink reaches from it, over others if need be."""
    island = list(range(len(links.peers)))
    for position, peers in enumerate(links.peers):
        for other in range(len(island)):
            if (peers or 0) >> other & 1:
                first, second = sorted((island[position], island[other]))
                island = [first if one == second else one for one in island]
    return tuple(island)


def _rank(
    links: Links, free: int, positions: tuple[int, ...], tensor_parallel: int, near: tuple[int, ...] | None
) -> tuple[float, ...]:
    steps = 0 if near is None else sum(near[one] for one in positions)
    left = free
    for one in positions:
        left &= ~(1 << one)
    return (
        _joined(links, positions, tensor_parallel),
        -_sockets(links, positions, tensor_parallel),
        -len({links.numa[one] for one in positions}),
        -steps,
        _wholeness(links, left),
        *(-one for one in positions),
    )


def _groups(positions: tuple[int, ...], size: int) -> Iterator[tuple[int, ...]]:
    for start in range(0, len(positions), size):
        yield positions[start : start + size]


def _joined(links: Links, positions: tuple[int, ...], tensor_parallel: int) -> float:
    """Share of the pairs within groups that NVLink joins; 1 where groups have one device."""
    joined = pairs = 0
    for group in _groups(positions, tensor_parallel):
        for first, second in combinations(group, 2):
            pairs += 1
            joined += (links.peers[first] or 0) >> second & 1
    return joined / pairs if pairs else 1.0


def _sockets(links: Links, positions: tuple[int, ...], tensor_parallel: int) -> int:
    """NUMA nodes beyond the first, summed over groups."""
    return sum(len({links.numa[one] for one in group}) - 1 for group in _groups(positions, tensor_parallel))


def _quality(links: Links, positions: tuple[int, ...], tensor_parallel: int) -> float:
    if len(positions) == 1:
        return 1.0
    if not links.known:
        return UNKNOWN_QUALITY
    nodes = {links.numa[one] for one in positions}
    sockets = UNKNOWN_QUALITY if None in nodes else 1.0 / len(nodes)
    return _LINKS * _joined(links, positions, tensor_parallel) + _SOCKETS * sockets


@lru_cache(maxsize=1024)
def _blocks(links: Links) -> tuple[int, ...]:
    """Masks of what a larger replica needs whole: NVLink islands, and NUMA nodes."""
    blocks: dict[tuple[str, int | None], int] = {}
    for position, (island, numa) in enumerate(zip(_islands(links), links.numa, strict=True)):
        for key in (("island", island), ("numa", numa)):
            blocks[key] = blocks.get(key, 0) | 1 << position
    return tuple(blocks[key] for key in sorted(blocks, key=str))


def _wholeness(links: Links, left: int) -> int:
    return sum((block & left).bit_count() ** 2 for block in _blocks(links))


def _beside(links: Links, free: int, positions: tuple[int, ...]) -> int:
    used = sum(1 << one for one in positions)
    touched = 0
    for block in _blocks(links):
        touched |= block if block & used else 0
    return (touched & free & ~used).bit_count()
