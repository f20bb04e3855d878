# SPDX-License-Identifier: BSD-2-Clause
"""Processes on a card and on its MIG instances, from NVML's lists by kind of process (D3, D5).

Private to llmgw and pure. A card in MIG mode lists the processes of all its instances, if the caller may know, and each
instance lists its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import nvml_words

_NO_INSTANCE = 0xFFFFFFFF
_KINDS = ("M", "C", "G")
_CARD = -1

_Processes = Optional[Tuple[contract.DeviceProcess, ...]]


class _Place(NamedTuple):
    """Where on a MIG card: both None for the card itself."""

    gpu_instance: int | None
    compute_instance: int | None


@dataclass(frozen=True)
class Held:
    """Processes by MIG device index, -1 for the card itself; a place whose processes are unknown is not there."""

    places: Mapping[int, tuple[contract.DeviceProcess, ...]]

    def of_card(self) -> _Processes:
        """Those on the card itself, or in an instance that is not listed; None when unknown."""
        return self.places.get(_CARD)

    def of_instance(self, index: int) -> _Processes:
        """Those in a MIG instance; None when unknown."""
        return self.places.get(index)


def held(card: Mapping[str, Any], names: Mapping[str, str | None]) -> Held:
    """The processes of a card with their names by pid; nothing is known when a list says what cannot be.

    A library of another release than the driver reads the lists at wrong offsets and gives nonsense.
    """
    devices: list[Mapping[str, Any]] = card["mig_devices"] or []
    carved = {_place(device): device["index"] for device in devices}
    found: dict[int, dict[int, contract.DeviceProcess]] = {}
    for of in (card, *devices):
        if _tells(of):
            told = [_CARD, *carved.values()] if of is card else [of["index"]]
            found.update({index: found.get(index, {}) for index in told})
        for kind, entry in _entries(of):
            if entry["pid"] == 0 or (entry["used"] or 0) > (card["memory"]["total"] or float("inf")):
                return Held({})
            index = carved.get(_place(entry), _CARD) if of is card else of["index"]
            known = found[index].get(entry["pid"])
            found[index][entry["pid"]] = _joined(known, kind, entry, names)
    return Held({index: tuple(found[index][pid] for pid in sorted(found[index])) for index in found})


def _tells(of: Mapping[str, Any]) -> bool:
    return any(entries is not None for entries in of["processes"].values())


def _entries(of: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for kind in _KINDS:
        for entry in of["processes"][kind] or ():
            yield kind, entry


def _place(of: Mapping[str, Any]) -> _Place:
    told = (of["gpu_instance"], of["compute_instance"])
    return _Place(*(None if number == _NO_INSTANCE else number for number in told))


def _joined(
    known: contract.DeviceProcess | None, kind: str, entry: Mapping[str, Any], names: Mapping[str, str | None]
) -> contract.DeviceProcess:
    """The process with one more kind: `C+G`, `M+C`."""
    kinds = {kind, *((known.kind or "").split("+") if known else ())}
    return contract.DeviceProcess(
        pid=entry["pid"],
        name=names.get(str(entry["pid"])) or None,
        used_mib=nvml_words.mib(entry["used"]),
        kind="+".join(one for one in _KINDS if one in kinds),
    )
