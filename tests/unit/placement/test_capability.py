# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmgw.model.ids import DeviceClass
from llmgw.model.node import Device, Node
from llmgw.model.replica import ProfileSpec
from llmgw.nodekit import contract
from llmgw.placement.capability import capability_fits, capable_classes, driver_fits
from llmgw.placement.feasibility import Ask
from llmgw.placement.ledger import Ledger
from llmgw.placement.tally import Tally
from tests.support.fleets import node, profile, service, with_facts

BOTH = ("h200-141g", "a100-80g")


def having(**classes: str | None) -> Node:
    """A node with one device of each class, `_` for `-`, of this compute capability."""
    devices = tuple(
        Device(f"GPU-{name}", number, str(number), DeviceClass(name.replace("_", "-")), compute_capability=capability)  # type: ignore[arg-type]
        for number, (name, capability) in enumerate(classes.items())
    )
    return replace(node("n1"), devices=devices)


def asks(classes: tuple[str, ...] = ("a100-80g",), **fields: Any) -> ProfileSpec:
    return profile("p", "vllm", classes, 1, **({"quantization": "fp8"} | fields))


def told(wanted: ProfileSpec, on: Node) -> str | None:
    chat = service("chat", profiles=(wanted,))
    found = capability_fits(Ask(chat, wanted, Tally(chat)), Ledger(on, (18000, 18010)))
    return None if found is None else f"{found.constraint}: {found.message} [{found.has:g} of {found.needs:g}]"


def test_a_class_below_its_floor_is_rejected_with_the_amount() -> None:
    said = told(asks(), having(a100_80g="8.0")) or ""
    assert said.startswith("capability: quantization fp8 of vllm needs compute capability 8.9, a100-80g has 8.0; use a")
    assert said.endswith("[8 of 8.9]")


def test_the_slow_path_is_taken_where_it_is_asked_for() -> None:
    assert told(asks(allow_slow_path=("quantization",)), having(a100_80g="8.0")) is None


def test_one_class_that_will_do_is_enough_and_the_other_is_no_candidate() -> None:
    on = having(a100_80g="8.0", h200_141g="9.0")
    assert told(asks(BOTH), on) is None
    assert capable_classes(asks(BOTH), on) == ("h200-141g",)


def test_a_class_that_the_node_does_not_have_does_not_save_it() -> None:
    assert told(asks(BOTH), having(a100_80g="8.0")) is not None


def test_what_the_card_reports_goes_before_what_its_name_says() -> None:
    assert told(asks(), having(a100_80g="8.9")) is None
    assert told(asks(("h200-141g",)), having(h200_141g="8.0")) is not None


def test_the_name_serves_where_no_card_reports_it() -> None:
    assert told(asks(), having(a100_80g=None)) is not None
    assert told(asks(("new-card-1g",)), having(new_card_1g=None)) is None


@pytest.mark.parametrize("on", [replace(node("n1"), devices=None), having(), having(l4_23g="8.9")])
def test_devices_that_are_unknown_or_of_other_classes_are_not_this_constraints_affair(on: Node) -> None:
    assert told(asks(), on) is None


def with_driver(cuda: str | None, version: str | None = "0.33.0", kind: str = "vllm") -> Node:
    engines = (contract.Engine(kind, ("/opt/v/bin/vllm",), version),)
    driver = contract.GpuDriver("nvml", driver_version="570.1", cuda_version=cuda)
    one = node("n1", gpus=1)
    assert one.facts is not None
    return with_facts(one, replace(one.facts, driver=driver, engines=engines))


def driver_told(on: Node, wanted: ProfileSpec | None = None) -> str | None:
    wanted = wanted or asks()
    chat = service("chat", profiles=(wanted,))
    found = driver_fits(Ask(chat, wanted, Tally(chat)), Ledger(on, (18000, 18010)))
    return None if found is None else f"{found.constraint}: {found.message} [{found.has} of {found.needs}]"


def test_a_driver_that_is_too_old_for_the_engine_is_told_with_what_to_do() -> None:
    assert driver_told(with_driver("12.8")) == (
        "driver: vllm 0.33.0 is built for CUDA 13, the driver 570.1 offers CUDA 12.8: update the driver, or install a "
        "build for CUDA 12 [12 of 13]"
    )


@pytest.mark.parametrize(
    "on",
    [
        with_driver("13.0"),
        with_driver("14.1"),
        with_driver(None),
        with_driver("12.8", "0.33.0+cu128"),
        with_driver("12.8", "0.19.0"),
        with_driver("12.8", None),
        with_driver("12.8", kind="sim"),
        node("n1"),
    ],
)
def test_a_driver_that_will_do_or_is_unknown_is_no_obstacle(on: Node) -> None:
    assert driver_told(on) is None


def test_a_replica_on_cpu_needs_no_driver() -> None:
    assert driver_told(with_driver("12.8"), profile("cpu", "vllm")) is None
