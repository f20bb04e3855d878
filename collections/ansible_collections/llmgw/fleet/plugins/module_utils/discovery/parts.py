# SPDX-License-Identifier: BSD-2-Clause
"""The parts that discovery consists of, and which of them a call reads (D17, D18).

Private to llmgw and pure. Hardware parts do not change between two boots with one driver: a refresh that knows them may
leave them out. All others are volatile, and weights are apart because looking for them may take long.
"""

from __future__ import annotations

from typing import Iterable

HARDWARE = ("cpu", "topology", "subnets", "engines")
VOLATILE = (
    "system",
    "memory",
    "units",
    "state",
    "gpus",
    "xids",
    "imex",
    "rdma",
    "storage",
    "gateway",
)
WEIGHTS = ("weights",)
ALL = HARDWARE + VOLATILE + WEIGHTS
_NEEDS = {"topology": "gpus", "xids": "gpus", "subnets": "rdma", "weights": "storage"}
"""Part to the part whose entries it adds to."""
GROUPS = {"all": ALL, "hardware": HARDWARE, "volatile": VOLATILE}


def chosen(words: Iterable[str]) -> frozenset[str]:
    """The parts that these words name: parts, groups, and either with `!` in front to take them out again.

    Words that only take out start from all. Raises ValueError with a sentence that names the wrong word, or says that
    nothing is left to read.
    """
    listed = [word.strip() for word in words if word.strip()]
    for word in listed:
        if word.lstrip("!") not in GROUPS and word.lstrip("!") not in ALL:
            known = ", ".join((*GROUPS, *sorted(ALL)))
            raise ValueError(f"there is no part of the facts named '{word}'; there are {known}")
    found: set[str] = set()
    if all(word.startswith("!") for word in listed):
        found.update(ALL)
    for word in listed:
        if not word.startswith("!"):
            found.update(GROUPS.get(word, (word,)))
    for word in listed:
        if word.startswith("!"):
            found.difference_update(GROUPS.get(word[1:], (word[1:],)))
    if not found:
        raise ValueError(f"'{','.join(listed)}' leaves no part of the facts to read")
    return frozenset(found | {_NEEDS[part] for part in found if part in _NEEDS})


def needed(words: Iterable[str], key: str | None, known: str | None) -> frozenset[str]:
    """The parts to read: those chosen, and the hardware too when it is not the one (`known`) that the caller knows.

    An unknown key is no proof that nothing changed, so the hardware is read then.
    """
    asked = chosen(words)
    return asked if key is not None and key == known else asked | frozenset(HARDWARE)
