# SPDX-License-Identifier: BSD-2-Clause
"""One finding for what concerns several cards of a node alike: a tired reader sees one line, not eight.

Private to llmgw and pure.
"""

from __future__ import annotations

from typing import Callable, Iterator, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding


def together(
    concerned: Sequence[contract.Gpu],
    cards: Sequence[contract.Gpu],
    code: str,
    message: Callable[[str], str],
    remedy: str,
) -> Iterator[Finding]:
    """One warning for what concerns some cards alike: about a card when it is one, else about the node."""
    if len(concerned) == 1:
        yield Finding(code, "warn", message(f"card {concerned[0].index}"), remedy, concerned[0].uuid)
    elif concerned:
        which = f"all {len(cards)} cards" if len(concerned) == len(cards) else f"cards {_listed(concerned)}"
        evidence = tuple(gpu.uuid or gpu.pci_address or f"card {gpu.index}" for gpu in concerned)
        yield Finding(code, "warn", message(which), remedy, None, evidence)


def _listed(cards: Sequence[contract.Gpu]) -> str:
    *first, last = [str(gpu.index) for gpu in cards]
    return f"{', '.join(first)} and {last}"
