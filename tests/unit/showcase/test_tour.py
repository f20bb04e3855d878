# SPDX-License-Identifier: Apache-2.0
"""docs/tutorials/showcase.md: what it shows is what the commands print."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.fleet_directory import Called
from tests.support.showcase import tour
from tests.support.showcase.files import FOLDER

Llmgw = Callable[..., Called]


@pytest.fixture
def call(llmgw: Llmgw, monkeypatch: pytest.MonkeyPatch) -> tour.Call:
    """What a command of the page prints, on a terminal of 120 columns."""
    monkeypatch.setenv("COLUMNS", "120")

    def printed(arguments: list[str]) -> str:
        called = llmgw(*arguments)
        assert called.status in (0, 3), called.err
        return called.out

    return printed


def test_every_output_of_the_tour_is_what_the_command_prints(call: tour.Call, *, update_golden: bool) -> None:
    """If this fails: pytest tests/unit/showcase --update-golden"""
    text = tour.PAGE.read_text(encoding="utf-8")
    now = tour.renewed(text, call)
    if update_golden:
        tour.PAGE.write_text(now, encoding="utf-8")
    else:
        assert text == now
    assert len(tour.commands(text)) >= 8


def test_no_line_of_the_tour_is_too_wide_to_read() -> None:
    lines = tour.PAGE.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 160] == []


@pytest.mark.parametrize(
    ("pipe", "left"),
    [
        ("head -2", ["1", "2"]),
        ("tail -1", ["33"]),
        ("grep -E '2|3'", ["2", "33"]),
        ("grep 3", ["33"]),
        ("cut -c -1 | tail -1", ["3"]),
    ],
)
def test_a_page_is_renewed_below_its_commands_alone(pipe: str, left: list[str]) -> None:
    page = f"# A\n\n    $ llmgw x 'a b' | {pipe}\n    old\n\n    older\n\nText\n\n    no command\n"
    asked: list[list[str]] = []

    def answer(arguments: list[str]) -> str:
        asked.append(arguments)
        return "1\n2\n33\n"

    renewed = tour.renewed(page, answer)
    printed = "".join(f"    {line}\n" for line in left)
    assert renewed == f"# A\n\n    $ llmgw x 'a b' | {pipe}\n{printed}\nText\n\n    no command\n"
    assert asked == [["x", "a b"]]
    assert tour.renewed(renewed, answer) == renewed


@pytest.mark.parametrize("command", [("facts", "refresh"), ("apply",), ("apply", "--check")])
def test_nothing_is_read_from_or_done_to_hosts_that_do_not_exist(llmgw: Llmgw, command: tuple[str, ...]) -> None:
    before = sorted((FOLDER / "facts").iterdir())
    called = llmgw(*command, "-i", FOLDER)
    assert called.status == 1
    assert "kept as of 2026-11-24 09:00 UTC" in called.err
    assert sorted((FOLDER / "facts").iterdir()) == before


@pytest.mark.parametrize("command", [("nodes",), ("facts", "show"), ("diff",)])
def test_every_command_that_shows_says_as_of_when(llmgw: Llmgw, command: tuple[str, ...]) -> None:
    called = llmgw(*command, "-i", FOLDER)
    assert (called.status, called.err) == (0, f"facts as of 2026-11-24 09:00 UTC, as {FOLDER}/facts/at says\n")
