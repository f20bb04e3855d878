# SPDX-License-Identifier: Apache-2.0
"""Files that a controller keeps of applies and plans: whatever is in them, it is read or refused with a reason."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from llmgw.apply import history, history_catalogs
from llmgw.apply.saved import Saved, read
from llmgw.cli.history_text import record_lines, table_lines
from llmgw.errors import LlmgwError
from llmgw.nodekit import version

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
source = st.fixed_dictionaries({"digest": st.text(max_size=80)}, optional={"path": values})
actions = st.lists(st.fixed_dictionaries({"kind": st.text(), "replica": st.text()}, optional={"nodes": values}))
record_like = st.fixed_dictionaries(
    {"id": st.text(), "generation": st.integers(), "began": st.floats(), "outcome": st.text(), "catalog": source},
    optional={
        "format_version": st.integers(0, 3),
        "ended": st.floats() | st.none(),
        "by": st.text(),
        "summary": st.text(),
        "actions": actions,
        "failure": st.lists(st.text()),
        "process": st.fixed_dictionaries({}, optional={"pid": st.integers(), "host": st.text()}),
    },
)
plan_like = st.fixed_dictionaries({"format_version": st.integers(0, 3)}, optional={"inputs": values, "waves": values})
saved_like = st.fixed_dictionaries(
    {"format_version": st.integers(0, 2), "plan": values | plan_like},
    optional={name: values for name in Saved.__dataclass_fields__ if name not in ("format_version", "plan")}
    | {"llmgw_version": st.just(version())},
)


def contents(like: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[bytes]:
    return st.binary() | (values | like).map(lambda value: json.dumps(value).encode())


@given(contents(record_like))
def test_any_file_of_the_history_is_a_record_that_can_be_shown_or_is_named(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "20260101T000000.000Z-x.json"
        path.write_bytes(data)
        found = history.read(Path(folder), 1_780_000_000.0)
        history.close(Path(folder), 1_780_000_000.0)
    assert len(found.records) + len(found.problems) == 1
    assert all(problem.code in ("history-broken", "history-newer") and problem.fix for problem in found.problems)
    for record in found.records:
        assert table_lines([record], 80)
        assert record_lines(record, 80, kept=True)


@given(contents(saved_like))
def test_any_file_is_a_saved_plan_or_an_error_of_ours(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        path.write_bytes(data)
        try:
            read(path)
        except LlmgwError as error:
            assert error.code == "saved-plan"  # noqa: PT017


catalog_like = st.fixed_dictionaries(
    {"format_version": st.just(1) | values, "main": st.text(max_size=5)},
    optional={"files": st.dictionaries(st.text(max_size=5), st.text(), max_size=2) | values},
)


@given(contents(catalog_like))
def test_any_kept_catalog_is_unpacked_or_an_error_of_ours(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "catalogs" / "abcdef01.json"
        path.parent.mkdir()
        path.write_bytes(data)
        try:
            history_catalogs.unpack(Path(folder), "sha256:abcdef01", Path(folder) / "again")
        except LlmgwError as error:
            assert error.code == "history-catalog"  # noqa: PT017
