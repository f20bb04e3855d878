# SPDX-License-Identifier: BSD-2-Clause
"""Which cards of a node NVLink joins, and which processors are close to a card, from NVML's raw readings (D6).

Private to llmgw and pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.smi_card import pci_address

_GPU, _SWITCH = 0, 2
_WORD_BITS = 64


@dataclass(frozen=True)
class Ends:
    """Where a card's active links end: how many at switches, and at each address of another device."""

    switch: int
    devices: Mapping[str, int]


def ends(links: Sequence[Mapping[str, Any]] | None) -> Ends | None:
    """None when the links are unknown, or one ends at something that NVML cannot name."""
    if links is None:
        return None
    switch = 0
    devices: dict[str, int] = {}
    for link in links:
        if not link["state"]:
            continue
        address = pci_address(link["remote_pci"])
        if link["remote"] == _SWITCH:
            switch += 1
        elif link["remote"] in {None, _GPU} and address is not None:
            devices[address] = devices.get(address, 0) + 1
        elif link["remote"] in {None, _GPU} or link["remote"] > _SWITCH:
            return None
    return Ends(switch, devices)


def peers(
    gpus: Sequence[contract.Gpu], found: Sequence[Ends | None]
) -> tuple[tuple[contract.NvlinkPeer, ...] | None, ...]:
    """Peers of each card, by index of the peer; None where they are unknown.

    Cards on switches reach one another with as many links as the one with fewer has. Switches that are not the same
    cannot be told apart here: within one node they are always joined.
    """
    return tuple(None if mine is None else tuple(_joined(gpu, mine, gpus, found)) for gpu, mine in zip(gpus, found))


def _joined(
    gpu: contract.Gpu, mine: Ends, gpus: Sequence[contract.Gpu], found: Sequence[Ends | None]
) -> Iterable[contract.NvlinkPeer]:
    for other, theirs in zip(gpus, found):
        if other.index == gpu.index or other.uuid is None:
            continue
        links = mine.devices.get(other.pci_address or "", 0) or min(mine.switch, theirs.switch if theirs else 0)
        if links:
            yield contract.NvlinkPeer(other.uuid, links)


def ranges(words: Sequence[int] | None) -> str | None:
    """Numbers of the bits that are set, as the kernel lists processors: `0-3,8`; None when none is."""
    numbers = _bits(words or ())
    parts: list[str] = []
    first = 0
    for at, number in enumerate(numbers):
        if at + 1 < len(numbers) and numbers[at + 1] == number + 1:
            continue
        parts.append(str(number) if numbers[first] == number else f"{numbers[first]}-{number}")
        first = at + 1
    return ",".join(parts) or None


def only(words: Sequence[int] | None) -> int | None:
    """Number of the one bit that is set; None when none or several are."""
    numbers = _bits(words or ())
    return numbers[0] if len(numbers) == 1 else None


def _bits(words: Sequence[int]) -> list[int]:
    return [at * _WORD_BITS + bit for at, word in enumerate(words) for bit in range(_WORD_BITS) if word >> bit & 1]
