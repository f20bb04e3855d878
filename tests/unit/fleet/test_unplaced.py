# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from llmgw.fleet.unplaced import unplaced
from llmgw.nodekit import contract
from tests.support.fleets import facts

ADDRESS = "0000:15:00.0"


def of(*cards: contract.Gpu, findings: tuple[contract.Finding, ...] = ()) -> list[tuple[str, str]]:
    return [(one.display_name, one.why) for one in unplaced(replace(facts("n1"), gpus=cards, findings=findings)) or ()]


def test_cards_that_can_be_placed_on_are_not_among_them_and_unknown_cards_are_unknown() -> None:
    assert unplaced(facts("n1", gpus=2)) == ()
    assert unplaced(replace(facts("n1"), gpus=None)) is None


def test_a_card_without_uuid_or_class_has_the_reason_that_its_findings_give_the_worst_first() -> None:
    card = contract.Gpu(5, None, pci_address=ADDRESS)
    warned = contract.Finding("gpu-refused", "warn", "nothing is told", subject=ADDRESS)
    lost = contract.Finding("gpu-lost", "block", "it does not answer", subject=ADDRESS)
    remark = contract.Finding("x", "info", "a remark", subject=ADDRESS)
    other = contract.Finding("ecc", "block", "another card", subject="GPU-1")
    assert of(card, findings=(remark, warned, other, lost)) == [("5", "it does not answer; nothing is told")]
    assert of(card) == [("5", "it has no UUID")]
    assert of(contract.Gpu(2, "GPU-2")) == [("2", "its class is unknown")]


def test_a_card_of_which_not_even_the_address_is_known_is_found_by_its_index() -> None:
    lost = contract.Finding("gpu-lost", "block", "card 12 at an unknown address does not answer the driver")
    assert of(contract.Gpu(1, None), contract.Gpu(12, None), findings=(lost,)) == [
        ("1", "it has no UUID"),
        ("12", lost.message),
    ]


def test_a_card_in_mig_mode_stands_for_its_instances() -> None:
    whole = contract.MigInstance("MIG-1", 1, device_class="a100-80g-mig-3g.40gb")
    card = contract.Gpu(3, "GPU-3", mig_mode=True, mig_instances=(whole, contract.MigInstance(None, 2)))
    assert of(card, replace(card, index=4, mig_instances=())) == [("3/mig2", "it has no UUID")]
