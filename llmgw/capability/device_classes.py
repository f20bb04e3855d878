# SPDX-License-Identifier: Apache-2.0
"""What is known of a device class by its name alone, before any node has reported a card of it.

Facts of a node always come first: this table serves where there are none, in the catalog's checks and in estimates.
Source: domain.md G1 and G2 (driver's MiB), E (MIG), F (NVLink generations).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

FIRST_MIG_INDEX = 1000
MIG_INDICES_PER_CARD = 100
"""An instance's index in placement is the first and so many for each card before its own (D5)."""
_MIB_PER_GIB = 1024
_EIGHTHS = 8
_NAME = re.compile(r"(?P<product>.+)-((?P<gib>[0-9]{1,5})g|unified)(-mig-(?P<instance>.+))?")
_INSTANCE = re.compile(r"(?:[0-9]+c\.)?[0-9]+g\.(?P<gb>[0-9]+)gb")
_INSTANCE_YIELD = 0.95
"""Instances report 95 to 99 % of their eighths of the card: 9728 MiB for 1g.10gb, 40192 for 3g.40gb of an A100-80."""


@dataclass(frozen=True, slots=True)
class Product:
    """One product, whatever memory and form factor it has.

    `compute_capability` None: it has none, because it is no CUDA device. `nvlink`: the generation in the form factors
    that have it; `nvlink_for_all`: every form factor joins all cards of a node by it. PCIe and NVL cards are joined in
    pairs at most, and only where somebody mounted a bridge.
    """

    compute_capability: str | None
    nvlink: int | None = None
    nvlink_for_all: bool = False
    multi_node_nvlink: bool = False


@dataclass(frozen=True, slots=True)
class KnownClass:
    """What a class's name says. `memory_mib` is the least that drivers report, or for a class that is not in the table
    a bound from its name, and then `memory_estimated`; None where nothing is known, such as unified memory.
    """

    name: str
    product: Product
    memory_mib: int | None
    memory_estimated: bool
    mig: bool = False

    @property
    def compute_capability(self) -> str | None:
        """`9.0`; None when the product has none."""
        return self.product.compute_capability


PRODUCTS: dict[str, Product] = {
    "v100": Product("7.0", nvlink=2),
    "t4": Product("7.5"),
    "a100": Product("8.0", nvlink=3),
    "a30": Product("8.0"),
    "a10": Product("8.6"),
    "a10g": Product("8.6"),
    "a40": Product("8.6"),
    "l4": Product("8.9"),
    "l20": Product("8.9"),
    "l40s": Product("8.9"),
    "rtx-6000-ada": Product("8.9"),
    "rtx-4090": Product("8.9"),
    "h100": Product("9.0", nvlink=4),
    "gh200": Product("9.0"),
    "h200": Product("9.0", nvlink=4),
    "b200": Product("10.0", nvlink=5, nvlink_for_all=True),
    "gb200": Product("10.0", nvlink=5, nvlink_for_all=True, multi_node_nvlink=True),
    "b300": Product("10.3", nvlink=5, nvlink_for_all=True),
    "gb300": Product("10.3", nvlink=5, nvlink_for_all=True, multi_node_nvlink=True),
    "rtx-5090": Product("12.0"),
    "rtx-pro-6000": Product("12.0"),
    "gb10": Product("12.1"),
    "mi300x": Product(None),
}
"""By the product's part of the class name."""

MEMORY_MIB: dict[str, int] = {
    "v100-16g": 16160,
    "v100-32g": 32510,
    "t4-15g": 15360,
    "t4-16g": 16127,
    "a100-40g": 40536,
    "a100-80g": 81251,
    "a30-24g": 24258,
    "a10-23g": 23028,
    "a10g-23g": 23028,
    "a40-45g": 46068,
    "a40-48g": 49140,
    "l4-23g": 23034,
    "l20-45g": 46068,
    "l40s-45g": 46068,
    "l40s-48g": 49140,
    "rtx-6000-ada-45g": 46068,
    "rtx-6000-ada-48g": 49140,
    "rtx-4090-24g": 24564,
    "rtx-5090-32g": 32607,
    "h100-80g": 81559,
    "h100-94g": 95830,
    "gh200-96g": 97871,
    "h200-141g": 143771,
    "b200-180g": 183359,
    "gb200-186g": 189471,
    "b300-269g": 275040,
    "gb300-278g": 284208,
    "rtx-pro-6000-96g": 97887,
    "mi300x-192g": 196300,
}
"""Least total memory that a driver was seen to report for a class of whole cards. Toggling ECC makes another class."""

NVLINK_GB_PER_S: dict[int, int] = {2: 300, 3: 600, 4: 900, 5: 1800}
"""Both directions together, of one card, by generation."""


def known_class(device_class: str) -> KnownClass | None:
    """What is known of a class by its name; None for a product that is not in the table."""
    found = _NAME.fullmatch(device_class)
    product = PRODUCTS.get(found["product"]) if found else None
    if found is None or product is None:
        return None
    gib = None if found["gib"] is None else int(found["gib"])
    exact = MEMORY_MIB.get(device_class.partition("-mig-")[0])
    # The number is the driver's MiB rounded up to GiB, so that more than the GiB below it are there.
    memory = exact or (None if gib is None else (gib - 1) * _MIB_PER_GIB + 1)
    if found["instance"] is not None:
        memory = None if memory is None or gib is None else _instance_mib(memory, gib, found["instance"])
        return KnownClass(device_class, product, memory, memory_estimated=True, mig=True)
    return KnownClass(device_class, product, memory, memory_estimated=exact is None)


def compute_capability(device_class: str) -> str | None:
    """The compute capability of a class; None when it is unknown, or when its cards are no CUDA devices."""
    known = known_class(device_class)
    return known.compute_capability if known else None


def _instance_mib(card_mib: int, card_gib: int, instance: str) -> int | None:
    """A bound for a MIG instance, by the eighths of the card's memory that its name is made of (domain.md E)."""
    found = _INSTANCE.match(instance)
    if found is None:
        return None
    eighths = min(_EIGHTHS, max(1, round(int(found["gb"]) * _EIGHTHS / card_gib)))
    return math.floor(card_mib * eighths / _EIGHTHS * _INSTANCE_YIELD)
