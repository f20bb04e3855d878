# SPDX-License-Identifier: Apache-2.0
"""Classes: equal cards get one name, and the number is what the driver reports (D4, D5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gpu_class


@pytest.mark.parametrize(
    ("name", "mib", "expected"),
    [
        # every product that serves, as its driver names it
        ("Tesla V100-SXM2-16GB", 16160, "v100-16g"),
        ("Tesla V100-SXM2-16GB", 16384, "v100-16g"),
        ("Tesla V100-SXM2-32GB", 32510, "v100-32g"),
        ("Tesla V100-SXM3-32GB", 32768, "v100-32g"),
        ("Tesla V100-PCIE-32GB", 32510, "v100-32g"),
        ("Tesla V100-DGXS-32GB", 32508, "v100-32g"),
        ("Tesla V100-FHHL-16GB", 16160, "v100-16g"),
        ("Tesla V100S-PCIE-32GB", 32510, "v100s-32g"),
        ("Tesla T4", 15360, "t4-15g"),
        ("Tesla T4", 16127, "t4-16g"),
        ("NVIDIA A100-SXM4-40GB", 40960, "a100-40g"),
        ("NVIDIA A100-PCIE-40GB", 40536, "a100-40g"),
        ("A100-SXM4-40GB", 40960, "a100-40g"),
        ("NVIDIA A100-SXM4-80GB", 81920, "a100-80g"),
        ("NVIDIA A100-SXM4-80GB", 81251, "a100-80g"),
        ("NVIDIA A100 80GB PCIe", 81920, "a100-80g"),
        ("NVIDIA A30", 24576, "a30-24g"),
        ("NVIDIA A30", 24258, "a30-24g"),
        ("NVIDIA A10", 23028, "a10-23g"),
        ("NVIDIA A10G", 23028, "a10g-23g"),
        ("NVIDIA A40", 46068, "a40-45g"),
        ("NVIDIA A40", 49140, "a40-48g"),
        ("NVIDIA L4", 23034, "l4-23g"),
        ("NVIDIA L40S", 46068, "l40s-45g"),
        ("NVIDIA L20", 46068, "l20-45g"),
        ("NVIDIA RTX 6000 Ada Generation", 49140, "rtx-6000-ada-48g"),
        ("NVIDIA RTX 6000 Ada Generation", 46068, "rtx-6000-ada-45g"),
        ("Quadro RTX 6000", 24576, "quadro-rtx-6000-24g"),
        ("NVIDIA RTX A6000", 49140, "rtx-a6000-48g"),
        ("NVIDIA GeForce RTX 4090", 24564, "rtx-4090-24g"),
        ("GeForce RTX 4090", 24564, "rtx-4090-24g"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 16376, "rtx-4090-laptop-16g"),
        ("NVIDIA GeForce RTX 5090", 32607, "rtx-5090-32g"),
        ("NVIDIA H100 80GB HBM3", 81559, "h100-80g"),
        ("NVIDIA H100 80GB HBM2e", 81559, "h100-80g"),
        ("NVIDIA H100 PCIe", 81559, "h100-80g"),
        ("NVIDIA H100 NVL", 95830, "h100-94g"),
        ("NVIDIA GH200 480GB", 97871, "gh200-96g"),
        ("NVIDIA GH200 144G HBM3e", 147456, "gh200-144g"),
        ("NVIDIA H200", 143771, "h200-141g"),
        ("NVIDIA H200 NVL", 143771, "h200-141g"),
        ("NVIDIA L20X", 143771, "l20x-141g"),
        ("NVIDIA B200", 183359, "b200-180g"),
        ("NVIDIA GB200", 189471, "gb200-186g"),
        ("NVIDIA GB200 NVL", 189471, "gb200-186g"),
        ("NVIDIA B300 SXM6 AC", 275040, "b300-269g"),
        ("NVIDIA GB300", 284208, "gb300-278g"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, "rtx-pro-6000-96g"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 97887, "rtx-pro-6000-96g"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 97887, "rtx-pro-6000-96g"),
        # what is no whole card, and what has no name of its own yet
        ("GRID A100-10C", 10240, "grid-a100-10c-10g"),
        ("NVIDIA L40S-48Q", 49152, "l40s-48q-48g"),
        ("NVIDIA PG509-210", 81251, "pg509-210-80g"),
        ("NVIDIA Graphics Device", 81559, "graphics-device-80g"),
        # memory that is the host's
        ("NVIDIA GB10", None, "gb10-unified"),
        ("Orin (nvgpu)", None, "orin-unified"),
        ("NVIDIA Thor", None, "thor-unified"),
        # unknown
        ("NVIDIA H100 80GB HBM3", None, None),
        (None, 81559, None),
        ("", 81559, None),
        ("NVIDIA H200", 0, None),
    ],
)
def test_cards_have_the_class_of_their_driver_memory(name: str | None, mib: int | None, expected: str | None) -> None:
    assert gpu_class.card_class(name, mib) == expected


@given(st.integers(min_value=1, max_value=10**7))
def test_the_number_is_the_smallest_that_holds_the_memory(mib: int) -> None:
    gib = int((gpu_class.card_class("NVIDIA X1", mib) or "").removeprefix("x1-").removesuffix("g"))
    assert gib * 1024 >= mib > (gib - 1) * 1024


@given(st.text(min_size=1))
def test_any_name_gives_a_class_that_can_be_written_in_yaml(name: str) -> None:
    found = gpu_class.card_class(name, 1024)
    assert found is None or (found.endswith("-1g") and set(found) <= set("abcdefghijklmnopqrstuvwxyz0123456789.+-"))


def test_an_instance_has_the_class_of_its_card_and_its_profile() -> None:
    assert gpu_class.instance_class("a100-80g", "3g.40gb") == "a100-80g-mig-3g.40gb"
    assert gpu_class.instance_class("a100-80g", None) is None
    assert gpu_class.instance_class(None, "3g.40gb") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", "SXM4"),
        ("NVIDIA A100 80GB PCIe", "PCIe"),
        ("Tesla P100-PCIE-16GB", "PCIe"),
        ("NVIDIA H100 NVL", "NVL"),
        ("NVIDIA GB200 NVL72", "NVL"),
        ("NVIDIA NVLab", None),
        ("NVIDIA H200", None),
        (None, None),
    ],
)
def test_the_form_factor_is_told_only_where_the_name_has_it(name: str | None, expected: str | None) -> None:
    assert gpu_class.form_factor(name) == expected
