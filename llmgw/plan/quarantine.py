# SPDX-License-Identifier: Apache-2.0
"""Which devices are marked so that they stay out until somebody clears them, although what was found of them goes away
with a reboot (P1b).

A finding about a device takes it out for as long as it is there. That is right for what is over when it is over: a
stranger's process, a pending reset, a fabric manager that restarts, MIG mode without instances. A fault of the hardware
is hidden by a reset or a reboot and comes back under load: such a device gets a mark on its node, with what was found.

One fault in what all cards share (the driver, a power supply, the machine) shows on all of them at once. Where more
than half of a node's cards, and at least two, stopped answering together, no card is marked for it: their findings
keep them out while it lasts, and which of them is bad, if any, shows when the others are back. Errors of a card's own
memory are always its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from llmgw.fleet.aging import old_findings
from llmgw.model.ids import DeviceId
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.model.plan import Quarantine
from llmgw.nodekit import contract

XID, LOST = "xid-fatal", "gpu-lost"
HARDWARE = (XID, LOST, "remap-failed", "ecc-uncorrected")
"""The codes of findings for which a device is marked. Of several that it has, the first tells most."""
OF_ITS_MEMORY = frozenset({48, 64, 95, 140})
"""XIDs that are about a card's own memory: no driver and no power supply is to blame."""
_SEVERAL = 2
_KNOWN_AS = re.compile(r"known to the kernel as (GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9a-f-])")
"""What discovery says of a lost card that no longer tells its UUID."""


def quarantines(fleet: FleetSnapshot) -> tuple[Quarantine, ...]:
    """The devices to mark, sorted by node and device: on nodes that answer and may be touched, with a fresh blocking
    finding of bad hardware, and not marked yet. Nodes that do not tell their marks are left alone.
    """
    found = [one for node in fleet.nodes for one in _of_node(node, fleet.taken_at)]
    return tuple(sorted(found, key=lambda one: (one.node, one.device)))


def _of_node(node: Node, now: float | None) -> Iterator[Quarantine]:
    facts = node.facts
    if node.state is not NodeState.OK or facts is None or facts.gpus is None or facts.quarantined is None:
        return
    worst = _worst(facts, now)
    if not worst:
        return
    marked = {one.device for one in facts.quarantined}
    cards = _cards_by_name(facts.gpus)
    shared = _of_what_they_share(worst, cards, len(facts.gpus))
    names = _names_of_lost(facts, worst, cards)
    for subject, finding in sorted(worst.items()):
        device = names.get(subject, subject)
        card = cards.get(subject)
        whole = card.uuid if card is not None else None
        with_its_card = subject != whole and (whole in marked or whole in worst.keys() - shared)
        if subject not in shared and device is not None and device not in marked and not with_its_card:
            yield Quarantine(node.name, DeviceId(device), finding.code, finding.message)


def _worst(facts: contract.NodeFacts, now: float | None) -> dict[str, contract.Finding]:
    """By subject (UUID, or address of a card that has none) the finding that tells most of its bad hardware."""
    found = [one for one in facts.findings if one.severity == "block" and one.subject and one.code in HARDWARE]
    old = old_findings(facts, now) if found and now is not None else frozenset()
    worst: dict[str, contract.Finding] = {}
    for one in sorted(found, key=lambda one: (HARDWARE.index(one.code), one.message)):
        if one not in old and one.subject is not None:
            worst.setdefault(one.subject, one)
    return worst


def _cards_by_name(gpus: Iterable[contract.Gpu]) -> dict[str, contract.Gpu]:
    """Each card by its UUID, its address, and the UUIDs of its MIG instances."""
    return {
        name: gpu
        for gpu in gpus
        for name in (gpu.uuid, gpu.pci_address, *(one.uuid for one in gpu.mig_instances))
        if name is not None
    }


def _of_what_they_share(
    worst: dict[str, contract.Finding], cards: dict[str, contract.Gpu], count: int
) -> frozenset[str]:
    """The subjects that more than half of the node's cards have company in; none when they are fewer."""
    silent = {
        subject
        for subject, finding in worst.items()
        if finding.code == LOST or (finding.code == XID and not _in_its_memory(cards.get(subject)))
    }
    return frozenset(silent) if len(silent) >= _SEVERAL and 2 * len(silent) > count else frozenset()


def _in_its_memory(card: contract.Gpu | None) -> bool:
    xids = (card.xids or ()) if card is not None else ()
    return any(xid.code in OF_ITS_MEMORY and xid.cleared is None for xid in xids)


def _names_of_lost(
    facts: contract.NodeFacts, worst: dict[str, contract.Finding], cards: dict[str, contract.Gpu]
) -> dict[str, str | None]:
    """The UUIDs of lost cards, by the address that is all they still tell; None where it is not known.

    The kernel may remember one. Else it is the device that a unit of the node holds and that the node no longer shows,
    if there is one such for each such card.
    """
    nameless = [name for name in worst if name not in cards or cards[name].uuid is None]
    said = {name: _KNOWN_AS.search(" ".join(_words(facts, name))) for name in nameless}
    names = {name: match.group(1) if match is not None else None for name, match in said.items()}
    unknown = sorted(name for name, uuid in names.items() if uuid is None)
    held = {device for unit in facts.units or () for device in unit.devices if device.startswith("GPU-")}
    gone = sorted(held - set(cards) - set(names.values()))
    if unknown and len(gone) == len(unknown):
        names |= dict(zip(unknown, gone, strict=True))
    return names


def _words(facts: contract.NodeFacts, subject: str) -> Iterator[str]:
    """The evidence of every finding about a subject."""
    return (word for one in facts.findings if one.subject == subject for word in one.evidence)
