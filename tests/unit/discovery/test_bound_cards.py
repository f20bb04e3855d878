# SPDX-License-Identifier: Apache-2.0
"""A lost card is missed because the kernel's driver still holds it, and is known by what the kernel remembers."""

from __future__ import annotations

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Gpu
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import bound_cards, presence
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.bound_cards import Answered, Bound
from tests.support.fake_host import FakeHost

DIRECTORY = presence.BOUND_CARDS
UUID = "GPU-0a0b0c0d-0000-4000-8000-000000000007"
INFORMATION = f"""Model: \t\t NVIDIA H100 80GB HBM3
IRQ:   \t\t 255
GPU UUID: \t {UUID}
Video BIOS: \t 96.00.74.00.01
Bus Location: \t 0000:4c:00.0
Device Minor: \t 2
GPU Excluded:\t No
"""
A, B, C = "0000:10:00.0", "0000:11:00.0", "0000:4c:00.0"


def card(index: int, address: str | None) -> Gpu:
    return Gpu(index, None if address is None else f"GPU-{address}", pci_address=address)


def test_the_kernel_names_its_cards() -> None:
    files = {f"{DIRECTORY}/{C}/information": INFORMATION, f"{DIRECTORY}/{A}/information": ""}
    assert bound_cards.read(FakeHost(files)) == (Bound(A), Bound(C, "NVIDIA H100 80GB HBM3", UUID))
    assert bound_cards.read(FakeHost()) == ()


def test_a_card_that_was_never_asked_shows_question_marks_for_a_name() -> None:
    information = INFORMATION.replace(UUID, "GPU-????????-????-????-????-????????????")
    assert bound_cards.described(C, information.replace("NVIDIA H100 80GB HBM3", "Unknown")) == Bound(C)


def test_a_card_that_the_administrator_excluded_is_not_held() -> None:
    for line in ("GPU Excluded:\t Yes\n", "Blacklisted:\t Yes\n"):
        assert bound_cards.read(FakeHost({f"{DIRECTORY}/{A}/information": INFORMATION + line})) == ()


def test_cards_that_all_answer_stay_as_they_are() -> None:
    answered = Answered((card(0, A), card(1, B)), {})
    assert bound_cards.complete(answered, [Bound(A), Bound(B)]) == answered
    assert bound_cards.complete(Answered((), {}), []) == Answered((), {})


def test_a_card_that_is_left_out_is_lost_in_its_place() -> None:
    found = bound_cards.complete(Answered((card(0, A), card(1, C)), {}), [Bound(A), Bound(B, "X", UUID), Bound(C)])
    assert [(one.index, one.pci_address, one.uuid) for one in found.gpus] == [
        (0, A, f"GPU-{A}"),
        (1, B, None),
        (2, C, f"GPU-{C}"),
    ]
    assert (found.lost, found.gpus[1].name) == ({1: f"known to the kernel as {UUID}"}, "X")
    assert bound_cards.complete(Answered((card(0, A),), {}), [Bound(A), Bound(B)]).lost == {1: None}


def test_a_card_without_an_address_is_taken_for_the_one_that_is_missing() -> None:
    answered = Answered((card(0, A), Gpu(1, None), card(2, C)), {1: "GPU is lost"})
    found = bound_cards.complete(answered, [Bound(A), Bound(B), Bound(C)])
    assert [one.pci_address for one in found.gpus] == [A, B, C]
    assert found.lost == {1: "GPU is lost"}


def test_a_lost_card_stays_when_the_kernel_holds_no_card_for_it() -> None:
    found = bound_cards.complete(Answered((Gpu(0, None), card(1, C)), {0: "GPU is lost"}), [Bound(C)])
    assert [(one.index, one.pci_address) for one in found.gpus] == [(0, C), (1, None)]
    assert found.lost == {1: "GPU is lost"}


def test_a_card_that_answers_with_an_error_keeps_its_words_and_gets_the_kernels_name() -> None:
    answered = Answered((Gpu(0, None, pci_address=A), card(1, C)), {0: "Unknown Error"})
    found = bound_cards.complete(answered, [Bound(A, "X", UUID), Bound(C)])
    assert found.lost == {0: f"Unknown Error; known to the kernel as {UUID}"}
    assert [(one.name, one.uuid) for one in found.gpus] == [("X", None), (None, f"GPU-{C}")]
    known = Answered((card(0, A),), {0: "GPU is lost"})
    assert bound_cards.complete(known, [Bound(A, "X", UUID)]).lost == {0: "GPU is lost"}


def test_a_card_that_only_a_message_speaks_of_is_missed() -> None:
    found = bound_cards.complete(Answered((card(0, C),), {}), [], {A: "GPU is lost"})
    assert ([one.pci_address for one in found.gpus], found.lost) == ([A, C], {0: "GPU is lost"})


def test_cards_whose_addresses_are_unknown_are_not_compared() -> None:
    answered = Answered((card(0, None),), {})
    assert bound_cards.complete(answered, [Bound(A)]) == answered
