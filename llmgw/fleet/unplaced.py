# SPDX-License-Identifier: Apache-2.0
"""Cards and MIG instances that are there and that nothing can be placed on, each with the reason (D3, D5). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llmgw.nodekit import contract

_SEVERITIES = ("block", "warn")
_TOLD = 2


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A card or instance without UUID or class. `display_name` is that of a device: `5`, or `3/mig1`."""

    display_name: str
    device_class: str | None = None
    uuid: str | None = None
    pci_address: str | None = None
    reasons: tuple[contract.Finding, ...] = ()
    """Findings on it that block or warn, the blocking ones first."""

    @property
    def why(self) -> str:
        """Why nothing can be placed on it, as a clause."""
        if self.reasons:
            return "; ".join(finding.message for finding in self.reasons[:_TOLD])
        return "it has no UUID" if self.uuid is None else "its class is unknown"


def unplaced(facts: contract.NodeFacts) -> tuple[Unplaced, ...] | None:
    """Those of a node, by index; None when its cards are unknown. A card in MIG mode stands for no device itself."""
    return None if facts.gpus is None else tuple(one for gpu in facts.gpus for one in _of_card(gpu, facts.findings))


def _of_card(gpu: contract.Gpu, findings: tuple[contract.Finding, ...]) -> Iterator[Unplaced]:
    if not gpu.mig_mode:
        if gpu.uuid is None or gpu.device_class is None:
            yield Unplaced(str(gpu.index), gpu.device_class, gpu.uuid, gpu.pci_address, _reasons(gpu, findings))
        return
    for instance in gpu.mig_instances:
        if instance.uuid is None or instance.device_class is None:
            name = f"{gpu.index}/mig{instance.index}"
            yield Unplaced(name, instance.device_class, instance.uuid, gpu.pci_address, _reasons(gpu, findings))


def _reasons(gpu: contract.Gpu, findings: tuple[contract.Finding, ...]) -> tuple[contract.Finding, ...]:
    own = {gpu.uuid, gpu.pci_address} - {None}
    # A card of which not even the address is known is named by nothing but its index.
    found = [one for one in findings if one.subject in own or (one.subject is None and _names(one.message, gpu.index))]
    return tuple(one for severity in _SEVERITIES for one in found if one.severity == severity)


def _names(message: str, index: int) -> bool:
    return message.startswith(f"card {index} ")
