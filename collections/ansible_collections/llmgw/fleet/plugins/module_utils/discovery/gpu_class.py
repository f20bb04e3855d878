# SPDX-License-Identifier: BSD-2-Clause
"""The class of a card from its name and its memory: `h200-141g`, `a100-80g-mig-3g.40gb` (D4, D5).

Private to llmgw and pure. What matters is that equal cards get one name and that the number is what fits. The number is
the driver's MiB rounded up to GiB, the only rounding under which NVIDIA's own MIG profile names come out right. Digits
in product names are not used: a `GH200 480GB` has 96 GiB of its own.
"""

from __future__ import annotations

import re

_MIB_PER_GIB = 1024
_WORD = re.compile(r"[a-z0-9.+]+")
_MEMORY_WORD = re.compile(r"[0-9]+gb?|hbm[0-9]+e?")
_FORM_WORD = re.compile(r"sxm[0-9]*|pcie|nvl[0-9]*|dgxs|fhhl|ac|lc")
_MAKER = {"nvidia", "tesla", "geforce", "gpu", "nvgpu"}
_EDITION = {"edition", "generation", "blackwell", "server", "workstation", "max", "q", "with", "design"}
_NOISE = frozenset(_MAKER | _EDITION)
# Integrated chips whose memory is the host's: the driver reports none of its own.
_UNIFIED = frozenset({"gb10", "orin", "thor", "xavier"})


def slug(name: str) -> str:
    """The product without maker, memory size, form factor and edition: `NVIDIA A100-SXM4-80GB` is `a100`."""
    words = _WORD.findall(name.lower())
    kept = [
        word for word in words if not (word in _NOISE or _MEMORY_WORD.fullmatch(word) or _FORM_WORD.fullmatch(word))
    ]
    return "-".join(kept or words)


def is_unified(name: str | None) -> bool:
    """Whether a product of this name shares the host's memory."""
    return name is not None and not _UNIFIED.isdisjoint(_WORD.findall(name.lower()))


def card_class(name: str | None, memory_total_mib: int | None) -> str | None:
    """The class of a whole card; None when the name or the memory is unknown. Unified memory has no number."""
    product = slug(name) if name else ""
    if not product:
        return None
    if memory_total_mib:
        gib: int = -(-memory_total_mib // _MIB_PER_GIB)
        return f"{product}-{gib}g"
    return f"{product}-unified" if is_unified(name) else None


def instance_class(parent: str | None, profile: str | None) -> str | None:
    """The class of a MIG instance from its card's class and the driver's profile name."""
    return f"{parent}-mig-{profile.lower()}" if parent and profile else None


def form_factor(name: str | None) -> str | None:
    """`SXM4`, `PCIe` or `NVL` when the product name says so."""
    words: list[str] = _WORD.findall((name or "").lower())
    for word in words:
        if word.startswith("sxm") and _FORM_WORD.fullmatch(word):
            return word.upper()
        if word == "pcie" or (word.startswith("nvl") and _FORM_WORD.fullmatch(word)):
            return "PCIe" if word == "pcie" else "NVL"
    return None
