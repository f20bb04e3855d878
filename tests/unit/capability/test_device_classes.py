# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from llmgw.capability.device_classes import MEMORY_MIB, NVLINK_GB_PER_S, PRODUCTS, compute_capability, known_class
from llmgw.capability.shortfall import version


@pytest.mark.parametrize("device_class", sorted(MEMORY_MIB))
def test_the_number_of_a_class_is_its_memory_rounded_up(device_class: str) -> None:
    product, _, number = device_class.rpartition("-")
    assert f"{-(-MEMORY_MIB[device_class] // 1024)}g" == number
    assert product in PRODUCTS


def test_every_product_is_of_a_known_generation() -> None:
    for name, product in PRODUCTS.items():
        assert product.compute_capability is None or version(product.compute_capability), name
        assert product.nvlink is None or product.nvlink in NVLINK_GB_PER_S, name
        assert not product.nvlink_for_all or product.nvlink, name


@pytest.mark.parametrize(
    ("device_class", "capability"),
    [
        ("a100-80g", "8.0"),
        ("a100-80g-mig-3g.40gb", "8.0"),
        ("a100-64g", "8.0"),
        ("rtx-pro-6000-96g-mig-1g.24gb", "12.0"),
        ("gb10-unified", "12.1"),
        ("mi300x-192g", None),
        ("a1000-8g", None),
        ("a100", None),
        ("cpu", None),
    ],
)
def test_the_capability_follows_from_the_product(device_class: str, capability: str | None) -> None:
    assert compute_capability(device_class) == capability


@pytest.mark.parametrize(
    ("device_class", "reported"),
    [
        ("a100-80g-mig-3g.40gb", 40192),
        ("a100-80g-mig-1g.10gb", 9728),
        ("a100-80g-mig-1c.3g.40gb+me", 40192),
        ("a100-80g-mig-7g.80gb", 80128),
        ("h100-80g-mig-3g.40gb", 40448),
    ],
)
def test_an_instance_has_no_less_than_is_said(device_class: str, reported: int) -> None:
    known = known_class(device_class)
    assert known is not None
    assert known.memory_mib is not None
    assert known.memory_estimated
    assert known.mig
    assert 0.93 * reported < known.memory_mib <= reported


def test_a_class_of_a_known_product_that_is_not_listed_has_more_than_a_gib_below_its_number() -> None:
    known = known_class("h100-64g")
    assert known is not None
    assert (known.memory_mib, known.memory_estimated) == (63 * 1024 + 1, True)


def test_unified_memory_is_unknown() -> None:
    known = known_class("gb10-unified")
    assert known is not None
    assert known.memory_mib is None
