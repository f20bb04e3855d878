# SPDX-License-Identifier: Apache-2.0
"""Whatever lies in the facts cache, whatever hosts are called: the last good facts are found, nothing else changes."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from llmgw.fleet import store
from tests.support.fleets import facts

GOOD = facts("n1", gpus=1)
WHOLE = (json.dumps(asdict(GOOD), indent=1, sort_keys=True) + "\n").encode()
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=15)


@settings(max_examples=60)
@given(st.binary(max_size=200) | st.integers(0, len(WHOLE) - 2).map(lambda length: WHOLE[:length]))
def test_any_broken_file_leaves_the_last_good_facts_in_force(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store.save(Path(folder), "n1", replace(GOOD, generation=1))
        store.save(Path(folder), "n1", GOOD)
        (Path(folder) / "n1.json").write_bytes(content)
        stored = store.load(Path(folder), "n1")
        assert stored.error is not None
        assert stored.facts == replace(GOOD, generation=1)


@settings(max_examples=60)
@given(st.binary(max_size=60))
@example(b'{"since": 1' + b"0" * 400 + b', "reason": "", "last": 1}')
@example(b'{"since": null}')
@example(b'{"since": 1, "reason": "x"}')
@example(b"[" * 10_000)
def test_any_note_of_unreachability_can_be_read(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "n1.unreachable").write_bytes(content)
        stored = store.load(Path(folder), "n1")
        assert stored.unreachable_since is None or isinstance(stored.unreachable_since, float)
        store.save(Path(folder), "n1", GOOD)
        assert store.load(Path(folder), "n1").unreachable_since is None


@settings(max_examples=60)
@given(st.sets(names, min_size=2, max_size=2))
def test_hosts_of_any_name_have_facts_of_their_own_inside_the_directory(pair: set[str]) -> None:
    with tempfile.TemporaryDirectory() as outer:
        folder = Path(outer) / "facts"
        first, second = sorted(pair)
        store.save(folder, first, replace(GOOD, generation=1))
        store.save(folder, second, replace(GOOD, generation=2))
        store.mark_unreachable(folder, second, 5.0, "x")
        assert store.load(folder, first).facts == replace(GOOD, generation=1)
        assert store.load(folder, second).facts == replace(GOOD, generation=2)
        assert store.load(folder, first).unreachable_since is None
        assert [path.name for path in Path(outer).iterdir()] == ["facts"]
        assert len(list(folder.iterdir())) == 4
