# SPDX-License-Identifier: BSD-2-Clause
"""The cards that the kernel's driver holds, whatever user space says of them: a lost card must not go unseen (D3).

Private to llmgw. A path that asked the driver's library or tool gives what answered; what the kernel holds beside that
is lost, unless the administrator told the driver to leave it alone.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Iterable, Mapping, NamedTuple

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import presence
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.smi_card import pci_address

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_EXCLUDED = re.compile(r"^(?:GPU Excluded|Blacklisted)\s*:\s*Yes", re.MULTILINE)
# A card that is lost since it was bound shows question marks.
_UUID = re.compile(r"^GPU UUID\s*:\s*(GPU-[0-9a-f-]{36})\s*$", re.MULTILINE)
_MODEL = re.compile(r"^Model\s*:\s*(\S.*?)\s*$", re.MULTILINE)


class Bound(NamedTuple):
    """A card that the kernel's driver holds; name and UUID are None when it does not tell them (any more)."""

    address: str
    name: str | None = None
    uuid: str | None = None


class Answered(NamedTuple):
    """Cards of a path, and by index what the driver said of those that it cannot talk to."""

    gpus: tuple[contract.Gpu, ...]
    lost: Mapping[int, str | None]


def read(host: Host) -> tuple[Bound, ...]:
    """The cards that the kernel's driver holds, by address, without those that it was told to exclude."""
    found = []
    for entry in host.list(presence.BOUND_CARDS) or ():
        information = (host.read(f"{presence.BOUND_CARDS}/{entry}/information") or b"").decode("utf-8", "replace")
        address = pci_address(entry)
        if address is not None and not _EXCLUDED.search(information):
            found.append(described(address, information))
    return tuple(sorted(found))


def described(address: str, information: str) -> Bound:
    """What the `information` file of a card says."""
    uuid, model = _UUID.search(information), _MODEL.search(information)
    name = model.group(1) if model else None
    return Bound(address, None if name == "Unknown" else name, uuid.group(1) if uuid else None)


def complete(answered: Answered, bound: Iterable[Bound], said: Mapping[str, str] | None = None) -> Answered:
    """The cards of a path with those that it leaves out; all are then indexed in the order of their addresses.

    Left out are the cards that the kernel holds and those that a message speaks of (`said`, by address). Lost cards
    that the path could not name are taken to be among them.
    """
    said = said or {}
    nameless = [gpu for gpu in answered.gpus if gpu.pci_address is None]
    if any(gpu.index not in answered.lost for gpu in nameless):
        return answered
    held = {card.address: card for card in bound}
    cards = {gpu.pci_address: gpu for gpu in answered.gpus if gpu.pci_address is not None}
    words = {address: answered.lost[gpu.index] for address, gpu in cards.items() if gpu.index in answered.lost}
    nowhere = [answered.lost[gpu.index] for gpu in nameless]
    for address in sorted({*held, *said} - set(cards)):
        cards[address] = contract.Gpu(0, None, pci_address=address)
        words[address] = said.get(address) or (nowhere.pop(0) if nowhere else None)
    for address, told in tuple(words.items()):
        cards[address], words[address] = _remembered(cards[address], told, held.get(address))
    ordered = [cards[address] for address in sorted(cards)]
    lost = {index: words[address] for index, address in enumerate(sorted(cards)) if address in words}
    lost.update(enumerate(nowhere, len(ordered)))
    ordered += [contract.Gpu(0, None) for _said in nowhere]
    return Answered(tuple(replace(card, index=index) for index, card in enumerate(ordered)), lost)


def _remembered(card: contract.Gpu, said: str | None, bound: Bound | None) -> tuple[contract.Gpu, str | None]:
    """A lost card with the name that the kernel remembers; the UUID goes into the words, as no card answers to it."""
    if bound is None:
        return card, said
    known = f"known to the kernel as {bound.uuid}" if bound.uuid is not None and card.uuid is None else None
    return replace(card, name=card.name or bound.name), "; ".join(filter(None, (said, known))) or None
