# SPDX-License-Identifier: Apache-2.0
"""Hashes of prompts, and which of them an endpoint has seen (G4)."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import pytest

from llmgw.gateway.routing.prefix import (
    BLOCK_BYTES,
    BYTES_PER_BLOCK,
    CAPACITY_BLOCKS,
    MOST_BLOCKS,
    PrefixIndex,
    chain,
    home,
)

PROMPT = b"".join(number.to_bytes(2, "big") for number in range(4 * BLOCK_BYTES))


def test_only_full_blocks_count() -> None:
    assert chain(1, ()) == chain(1, (b"",)) == chain(1, (bytes(BLOCK_BYTES - 1),)) == ()
    assert len(chain(1, (bytes(BLOCK_BYTES),))) == 1
    assert len(chain(1, (bytes(2 * BLOCK_BYTES - 1),))) == 1


def test_a_longer_prompt_begins_with_the_numbers_of_the_shorter() -> None:
    whole = chain(1, (PROMPT,))
    for size in range(0, len(PROMPT), 100):
        part = chain(1, (PROMPT[:size],))
        assert part == whole[: len(part)]


def test_a_changed_byte_changes_every_number_from_there_on() -> None:
    changed = bytearray(PROMPT)
    changed[3 * BLOCK_BYTES] ^= 1
    before, after = chain(1, (PROMPT,)), chain(1, (bytes(changed),))
    assert before[:3] == after[:3]
    assert not set(before[3:]) & set(after[3:])


def test_equal_blocks_do_not_cancel_each_other() -> None:
    same = chain(1, (bytes(20 * BLOCK_BYTES),))
    assert len(set(same)) == 20
    assert 0 not in same


def test_exchanged_blocks_are_another_prompt() -> None:
    first, second = b"a" * BLOCK_BYTES, b"b" * BLOCK_BYTES
    one, other = chain(1, (first + second,)), chain(1, (second + first,))
    assert not set(one) & set(other)


@pytest.mark.parametrize("seed", [2, -1, 0, (1 << 61) - 1, (1 << 62) - 1, (1 << 63) - 1, -(1 << 63), 1 << 80])
def test_who_must_not_share_has_other_numbers(seed: int) -> None:
    assert not set(chain(1, (PROMPT,))) & set(chain(seed, (PROMPT,)))
    assert chain(seed, (PROMPT,)) == chain(seed, (PROMPT,))


def test_where_one_piece_ends_and_the_next_begins_matters() -> None:
    assert chain(1, (PROMPT[:301], PROMPT[301:])) != chain(1, (PROMPT[:302], PROMPT[302:]))
    assert chain(1, (memoryview(PROMPT)[:300], PROMPT[300:])) == chain(1, (PROMPT[:300], PROMPT[300:]))


def test_the_end_of_a_very_long_prompt_is_not_looked_at() -> None:
    assert len(chain(1, (bytes(BLOCK_BYTES * (MOST_BLOCKS + 10)),))) == MOST_BLOCKS


def test_the_home_of_a_prompt_is_the_same_in_every_process() -> None:
    code = "from llmgw.gateway.routing.prefix import home; print(home(7, (b'tools', b'x' * 1000)))"
    told = {
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env={"PYTHONHASHSEED": str(seed)})
        .stdout.decode()
        .strip()
        for seed in (1, 2)
    }
    assert told == {str(home(7, (b"tools", b"x" * 1000)))}


def test_the_home_of_a_prompt_depends_on_its_first_block_alone() -> None:
    assert home(7, (PROMPT,)) == home(7, (PROMPT[:BLOCK_BYTES],)) == home(7, (PROMPT[:9], PROMPT[9:]))
    assert home(7, (PROMPT,)) != home(8, (PROMPT,)) != home(8, (PROMPT[1:],))
    assert home(7, (b"short",)) != home(7, (b"shart",))


def test_a_prompt_that_was_seen_matches_as_far_as_it_is_the_same() -> None:
    index = PrefixIndex()
    whole = chain(1, (PROMPT,))
    index.touch(whole[:5])
    assert index.match(whole) == 5
    assert index.match(whole[:3]) == 3
    assert index.match(chain(2, (PROMPT,))) == index.match(()) == 0


def test_what_was_not_used_for_long_is_forgotten_and_what_is_used_stays() -> None:
    index = PrefixIndex(40)
    used, forgotten = tuple(range(10)), tuple(range(100, 105))
    index.touch(forgotten)
    for turn in range(20):
        index.touch(used)
        index.touch((1000 + turn, 2000 + turn))
    assert index.match(used) == 10
    assert index.match(forgotten) == 0


def test_of_a_prompt_beyond_the_capacity_its_beginning_is_kept() -> None:
    index = PrefixIndex(20)
    index.touch(tuple(range(100)))
    assert index.match(tuple(range(100))) == 10
    assert len(index) == 10


def test_a_cleared_index_knows_nothing() -> None:
    index = PrefixIndex()
    index.touch((1, 2, 3))
    index.clear()
    assert len(index) == index.match((1, 2, 3)) == 0


# case 14, case 15
def test_a_full_index_takes_no_more_memory_than_is_said() -> None:
    tracemalloc.start()
    try:
        index = PrefixIndex(CAPACITY_BLOCKS)
        most = 0
        for number in range(4 * CAPACITY_BLOCKS // 64):
            index.touch(chain(number, (bytes(64 * BLOCK_BYTES),)))
            most = max(most, tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert CAPACITY_BLOCKS // 2 <= len(index) <= CAPACITY_BLOCKS
    assert most <= CAPACITY_BLOCKS * BYTES_PER_BLOCK


class Asked(set[int]):
    """A generation that counts how often it is asked."""

    times = 0

    def __contains__(self, block: object) -> bool:
        self.times += 1
        return super().__contains__(block)


@pytest.mark.parametrize("depth", [0, 1, 700, MOST_BLOCKS - 1, MOST_BLOCKS])
def test_a_long_prompt_is_found_in_a_dozen_questions(depth: int) -> None:
    index = PrefixIndex()
    index._young, index._old = young, old = Asked(range(depth)), Asked()
    assert index.match(tuple(range(MOST_BLOCKS))) == depth
    assert young.times + old.times <= 13
