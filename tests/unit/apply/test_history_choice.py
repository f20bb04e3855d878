# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.apply.history import History, Record, Source
from llmgw.apply.history_choice import choose, name_of, rollback_target
from llmgw.errors import LlmgwError


def applies(*told: str) -> History:
    """Applies, the newest first: `id generation outcome catalog command`; `partly` is a kind of done."""
    rows = [f"{one} apply".split()[:5] for one in told]
    return History(
        tuple(
            Record(
                id=name,
                generation=int(generation),
                began=float(-number),
                outcome="done" if outcome == "partly" else outcome,
                catalog=Source(digest),
                command=command,
                partly=outcome == "partly",
            )
            for number, (name, generation, outcome, digest, command) in enumerate(rows)
        )
    )


def target(*told: str, which: str | None = None) -> str:
    return rollback_target(applies(*told), which).id


def test_an_apply_is_found_by_its_id_the_beginning_of_it_or_its_generation() -> None:
    found = applies("abcdef 12 done A", "abcxyz 11 done B")
    assert choose(found, "abcdef").generation == 12
    assert choose(found, "abcx").generation == 11
    assert choose(found, "11").id == "abcxyz"


def test_a_beginning_that_two_ids_have_is_refused() -> None:
    with pytest.raises(LlmgwError, match="2 applies"):
        choose(applies("abcdef 12 done A", "abcdxy 11 done B"), "abcd")


@pytest.mark.parametrize("which", ["13", "zzzz", "abc", "-1", ""])
def test_what_is_not_there_is_refused_with_a_way_to_see_what_is(which: str) -> None:
    with pytest.raises(LlmgwError, match="no apply") as raised:
        choose(applies("abcdef 12 done A"), which)
    assert "llmgw history" in str(raised.value.fix)


def test_of_several_applies_of_a_generation_the_one_that_went_well_is_meant() -> None:
    found = applies("third 12 failed A", "second 12 done B", "first 12 failed C")
    assert choose(found, "12").id == "second"
    assert choose(applies("third 12 failed A", "first 12 failed C"), "12").id == "third"


def test_an_id_of_digits_is_an_id_first() -> None:
    assert choose(applies("7777 12 done A", "x 7777 done B"), "7777").generation == 12


def test_without_a_name_it_goes_back_to_the_newest_good_apply_of_another_catalog() -> None:
    assert target("d 4 done B", "c 3 done B", "b 2 done A", "a 1 done C") == "b"


def test_after_a_failure_it_goes_back_to_what_went_well_last() -> None:
    assert target("c 3 failed C", "b 2 done B", "a 1 done A") == "b"
    assert target("c 3 interrupted C", "b 2 done B", "a 1 done A") == "b"


def test_a_failed_apply_is_never_gone_back_to() -> None:
    assert target("c 3 done C", "b 2 failed B", "a 1 done A") == "a"


def test_an_apply_that_was_done_only_partly_never_served_and_is_not_gone_back_to() -> None:
    assert target("c 3 done C", "b 2 partly B", "a 1 done A") == "a"
    assert target("c 3 failed C", "b 2 partly B", "a 1 done A") == "a"


def test_after_an_apply_that_was_done_only_partly_it_goes_back_to_what_served_before() -> None:
    assert target("c 3 partly C", "b 2 done B", "a 1 done A") == "b"
    assert target("d 4 partly C", "c 3 partly C", "b 2 done B", "a 1 done A") == "b"


def test_after_a_rollback_that_did_not_go_well_the_next_tries_the_same_again() -> None:
    for ended in ("failed", "interrupted", "partly"):
        assert target(f"c 3 {ended} A rollback", "b 2 done B", "a 1 done A") == "a"
        assert target(f"d 4 {ended} B rollback", "c 3 failed C", "b 2 done B", "a 1 done A") == "b"
    assert target("c 3 failed A rollback", "b 2 failed A rollback", "a 1 done B", "z 0 done A") == "z"


def test_an_apply_that_was_done_only_partly_can_be_named() -> None:
    assert target("c 3 done C", "b 2 partly B", "a 1 done A", which="2") == "b"


def test_a_generation_within_an_apply_means_that_apply() -> None:
    found = applies("cccc 12 done C", "bbbb 8 done B", "aaaa 1 done A")
    assert choose(found, "9").id == "bbbb"
    assert choose(found, "11").id == "bbbb"
    with pytest.raises(LlmgwError, match="no apply 13"):
        choose(found, "13")
    with pytest.raises(LlmgwError, match="no apply 0"):
        choose(found, "0")
    known = History(tuple(replace(one, last_generation=one.generation + 2) for one in found.records))
    assert choose(known, "10").id == "bbbb"
    assert choose(known, "14").id == "cccc"
    for beyond in ("11", "15"):
        with pytest.raises(LlmgwError, match="no apply"):
            choose(known, beyond)


def test_an_apply_is_called_by_its_generation_where_that_means_it() -> None:
    found = applies("third 12 failed A", "second 12 done B", "first 11 failed C")
    assert [name_of(found, one) for one in found.records] == ["third", "12", "11"]


def test_the_fix_of_a_wrong_choice_names_a_generation_to_go_back_to() -> None:
    with pytest.raises(LlmgwError) as raised:
        target("c 3 failed C", "b 2 done B", which="3")
    assert "llmgw rollback 2" in str(raised.value.fix)
    with pytest.raises(LlmgwError) as raised:
        target("c 3 failed C", which="3")
    assert "none went well" in str(raised.value.fix)


def test_a_second_rollback_goes_forward_again() -> None:
    assert target("c 3 done A", "b 2 done B", "a 1 done A") == "b"


def test_a_named_generation_may_be_of_the_present_catalog() -> None:
    assert target("b 2 done A", "a 1 done A", which="1") == "a"


def test_a_named_apply_that_did_not_go_well_is_refused() -> None:
    with pytest.raises(LlmgwError, match="did not go well \\(failed\\)"):
        target("b 2 failed B", "a 1 done A", which="2")


def test_with_nothing_to_go_back_to_it_says_so() -> None:
    with pytest.raises(LlmgwError, match="empty") as raised:
        target()
    assert "git revert" in str(raised.value.fix)
    with pytest.raises(LlmgwError, match="no apply of another catalog"):
        target("b 2 done A", "a 1 done A")
