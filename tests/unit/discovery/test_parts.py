# SPDX-License-Identifier: Apache-2.0
"""Which parts of a node a call reads."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import parts

EVERYTHING = frozenset(parts.ALL)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["all"], EVERYTHING),
        ([], EVERYTHING),
        (["!weights"], EVERYTHING - {"weights"}),
        (["volatile"], frozenset(parts.VOLATILE)),
        (["volatile", "!hardware", " cpu "], frozenset({*parts.VOLATILE})),
        (["hardware"], frozenset({*parts.HARDWARE, "gpus", "rdma"})),
        (["memory", "units"], frozenset({"memory", "units"})),
        (["weights"], frozenset({"weights", "storage"})),
    ],
)
def test_words_name_parts_and_groups_and_take_them_out(words: list[str], expected: frozenset[str]) -> None:
    assert parts.chosen(words) == expected


def test_a_word_that_names_nothing_is_refused_with_the_words_there_are() -> None:
    with pytest.raises(ValueError, match="no part of the facts named '!disks'; there are all, hardware, volatile, cpu"):
        parts.chosen(["all", "!disks"])


@pytest.mark.parametrize("words", [["!all"], ["gpus", "!gpus"], ["hardware", "!hardware"]])
def test_words_that_leave_nothing_to_read_are_refused(words: list[str]) -> None:
    with pytest.raises(ValueError, match=f"'{','.join(words)}' leaves no part of the facts to read"):
        parts.chosen(words)


@pytest.mark.parametrize(
    ("key", "known", "hardware"),
    [("boot 580", "boot 580", False), ("boot 580", "boot 570", True), ("boot 580", None, True), (None, None, True)],
)
def test_hardware_that_the_caller_does_not_know_is_read_whatever_was_asked(
    key: str | None, known: str | None, *, hardware: bool
) -> None:
    asked = parts.needed(["volatile"], key, known)
    assert set(parts.VOLATILE) <= asked
    assert (set(parts.HARDWARE) <= asked) is hardware


def test_every_part_is_in_one_group() -> None:
    assert sorted(parts.ALL) == sorted({*parts.HARDWARE, *parts.VOLATILE, *parts.WEIGHTS})
