# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from llmgw.apply import actions
from llmgw.apply.moment import in_words, kept_at, looked_at, refuse_kept
from llmgw.errors import LlmgwError


def test_facts_without_a_moment_are_those_of_now(tmp_path: Path) -> None:
    assert kept_at(tmp_path) is None
    assert looked_at(tmp_path, 5.0) == 5.0
    assert kept_at(tmp_path / "nowhere") is None
    refuse_kept(tmp_path)


@pytest.mark.parametrize("text", ["1795510800", "1795510800\n", " 1795510800 \n"])
def test_facts_with_a_moment_are_looked_at_as_of_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "at").write_text(text)
    assert looked_at(tmp_path, 5.0) == 1_795_510_800.0
    assert in_words(1_795_510_800.0) == "2026-11-24 09:00 UTC"


@pytest.mark.parametrize(
    "content", [b"", b"yesterday", b"-5", b"1e9", b"nan", b"1795510800.5", b"\xff\xfe", b"9" * 200]
)
def test_a_moment_that_is_none_is_an_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "at").write_bytes(content)
    with pytest.raises(LlmgwError) as caught:
        looked_at(tmp_path, 5.0)
    assert caught.value.code == "facts-moment"
    assert str(caught.value.where) == str(tmp_path / "at")


def test_what_would_change_hosts_or_facts_is_refused_with_the_moment(tmp_path: Path) -> None:
    (tmp_path / "at").write_text("1795510800")
    with pytest.raises(LlmgwError, match="2026-11-24 09:00 UTC") as caught:
        refuse_kept(tmp_path)
    assert caught.value.code == "facts-kept"
    assert caught.value.fix


def test_a_playbook_stores_no_facts_beside_kept_ones_and_makes_no_plan_of_them(tmp_path: Path) -> None:
    (tmp_path / "at").write_text("1795510800")
    with pytest.raises(LlmgwError, match="kept as of"):
        actions.keep_facts(tmp_path, {"n1": {"unreachable": True}}, 5.0)
    assert [path.name for path in tmp_path.iterdir()] == ["at"]
    with pytest.raises(LlmgwError, match="kept as of"):
        actions.make_plan(actions.Request(tmp_path / "catalog.yaml", tmp_path, (), 5.0, frozenset()), tmp_path / "bulk")
