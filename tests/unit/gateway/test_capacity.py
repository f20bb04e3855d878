# SPDX-License-Identifier: Apache-2.0
"""Speeds of endpoints: by their hardware, and by what they were seen to do (G4)."""

from __future__ import annotations

import pytest

from llmgw.capability.device_classes import MEMORY_MIB, PRODUCTS
from llmgw.gateway.routing.capacity import CARDS, UNKNOWN, Capacity, card_of


def test_every_product_that_is_known_elsewhere_has_its_figures() -> None:
    assert set(CARDS) == set(PRODUCTS)


@pytest.mark.parametrize("device_class", [*MEMORY_MIB, "gb10-unified", "h100-96g"])
def test_a_class_is_found_by_its_product(device_class: str) -> None:
    product = device_class.removesuffix("-unified").rpartition("-")[0] if device_class[-1] == "g" else "gb10"
    assert card_of(device_class) == CARDS[product]


@pytest.mark.parametrize("device_class", [None, "", "h100", "tpu-v9-32g", "h100x-80g", "nvidia"])
def test_a_class_that_is_not_known_is_in_the_middle(device_class: str | None) -> None:
    assert card_of(device_class) == UNKNOWN
    faster = sum(card.tflops > UNKNOWN.tflops for card in CARDS.values())
    slower = sum(card.tflops < UNKNOWN.tflops for card in CARDS.values())
    assert abs(faster - slower) <= 1


def test_an_instance_has_its_sevenths_of_a_card() -> None:
    assert card_of("h100-80g-mig-3g.40gb").tflops == pytest.approx(989 * 3 / 7)
    assert card_of("h100-80g-mig-1c.2g.20gb").gb_per_s == pytest.approx(3350 * 2 / 7)


def test_no_devices_are_a_processor_and_not_an_unknown_card() -> None:
    assert Capacity(None, 0).prefill_tps < Capacity("t4-16g", 1).prefill_tps < Capacity(None, None).prefill_tps


def test_more_devices_are_faster_but_not_by_as_much() -> None:
    one, two, eight = (Capacity("h100-80g", devices) for devices in (1, 2, 8))
    assert one.prefill_tps < two.prefill_tps < 2 * one.prefill_tps < eight.prefill_tps < 8 * one.prefill_tps
    assert one.step_s > two.step_s > one.step_s / 2 > eight.step_s > one.step_s / 8


def test_a_wrong_prior_is_mended_by_a_handful_of_answers() -> None:
    capacity = Capacity("h100-80g", 1)
    for _answer in range(7):
        capacity.read(4000, 4.0)
    assert capacity.prefill_tps == pytest.approx(1000, rel=0.25)
    for _answer in range(60):
        capacity.read(4000, 4.0)
    assert capacity.prefill_tps == pytest.approx(1000, rel=0.01)


def test_short_prompts_say_nothing_about_speed() -> None:
    capacity = Capacity("h100-80g", 1)
    before = capacity.prefill_tps
    capacity.read(100, 1.0)
    capacity.read(5000, 0.0)
    assert capacity.prefill_tps == before


def test_one_outlier_moves_a_settled_speed_by_little() -> None:
    capacity = Capacity("h100-80g", 1)
    for _answer in range(100):
        capacity.read(4000, 4.0)
    capacity.read(4000, 400.0)
    assert capacity.prefill_tps > 850
    capacity.read(4000, 0.001)
    assert capacity.prefill_tps < 1150


def test_a_token_takes_the_same_alone_however_many_ran() -> None:
    alone, crowded = Capacity("h100-80g", 1), Capacity("h100-80g", 1)
    for _answer in range(80):
        alone.wrote(100, 1.0, 1)
        crowded.wrote(100, 2.0, 65)
    assert alone.step_s == pytest.approx(0.01, rel=0.01)
    assert crowded.step_s == pytest.approx(0.01, rel=0.01)


def test_longer_answers_make_running_requests_dearer() -> None:
    capacity = Capacity("h100-80g", 1)
    before = capacity.decode_s
    for _answer in range(200):
        capacity.wrote(4096, 0.0, 1)
    assert capacity.output_tokens == pytest.approx(4096, rel=0.01)
    assert capacity.decode_s == pytest.approx(before * 16, rel=0.01)


def test_an_answer_of_nothing_teaches_nothing() -> None:
    capacity = Capacity("h100-80g", 1)
    before = (capacity.output_tokens, capacity.step_s)
    capacity.wrote(0.0, 5.0, 1)
    assert (capacity.output_tokens, capacity.step_s) == before


def test_after_doubt_the_next_answer_weighs_as_the_first() -> None:
    settled, doubted = Capacity("h100-80g", 1), Capacity("h100-80g", 1)
    for capacity in (settled, doubted):
        for _answer in range(100):
            capacity.read(4000, 4.0)
    doubted.doubt()
    for capacity in (settled, doubted):
        capacity.read(4000, 2.0)
    assert settled.prefill_tps < doubted.prefill_tps
