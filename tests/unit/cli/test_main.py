# SPDX-License-Identifier: Apache-2.0
"""The command as a whole: help, version, and every way to end."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from llmgw.cli import main, plan
from llmgw.cli.style import coloured, page
from tests.support.fleet_directory import Called, FleetDirectory

Call = Callable[..., Called]
GALAXY = Path("collections/ansible_collections/llmgw/fleet/galaxy.yml")
COMMANDS = [*([name] for name in main._COMMANDS), ["facts", "local"], ["facts", "refresh"], ["facts", "show"]]


def python(*arguments: str, timeout_s: float = 30) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TERM": "dumb"}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False, env=environment
    )


def test_the_version_is_that_of_the_collection(llmgw: Call) -> None:
    root = Path(main.__file__).parents[2]
    written = re.search(r"(?m)^version: (\S+)$", (root / GALAXY).read_text(encoding="utf-8"))
    assert written is not None
    assert llmgw("--version") == Called(0, f"{written[1]}\n", "")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_describes_itself(llmgw: Call, command: Sequence[str]) -> None:
    called = llmgw(*command, "--help")
    assert (called.status, called.err) == (0, "")
    assert called.out.startswith(f"Usage: llmgw {' '.join(command)} ")
    assert "--help" in called.out


def test_the_help_of_all_names_every_command(llmgw: Call) -> None:
    called = llmgw("--help")
    assert (called.status, called.err) == (0, "")
    assert [name for name in main._COMMANDS if f"\n  {name} " not in called.out] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("plan", "--nonsense"), "No such option"),
        (("nonsense",), "No such command"),
        (("plan", "surplus"), "unexpected extra argument"),
        (("plan", "-i"), "requires an argument"),
        (("facts", "nonsense"), "No such command"),
        ((), "Usage: llmgw"),
        (("facts",), "Usage: llmgw facts"),
    ],
)
def test_wrong_usage_ends_with_64_and_says_why_on_stderr(llmgw: Call, arguments: tuple[str, ...], says: str) -> None:
    called = llmgw(*arguments)
    assert (called.status, called.out) == (64, "")
    assert says in called.err


def test_an_interrupted_command_ends_with_130(llmgw: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_arguments: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(plan, "find_paths", interrupted)
    called = llmgw("plan", "-i", tmp_path)
    assert (called.status, called.out) == (130, "")
    assert "Traceback" not in called.err


def test_a_reader_that_leaves_early_gets_no_traceback(directory: FleetDirectory) -> None:
    script = f"exec {sys.executable} -m llmgw plan -i {directory.path} --json"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        ["sh", "-c", script], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=30, check=False, env=environment
    )
    os.close(writer)
    assert done.returncode != 0
    assert done.stderr == ""


HEAVY = ("ansible", "ansible_runner", "fastapi", "uvicorn", "rich", "prometheus_client", "jinja2")


@pytest.mark.parametrize("command", ["plan", "diff"])
def test_a_command_starts_without_what_it_does_not_need(command: str) -> None:
    code = (
        "import sys; from llmgw.cli.main import run; status = run([sys.argv[1], '--help']);"
        f"print(status, [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = python("-c", code, command)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr


class Stream:
    """A terminal, or none."""

    def __init__(self, *, terminal: bool) -> None:
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


LINES = ["+ chat/0", "- chat/1", "    why", "", "Plan"]


def test_only_a_terminal_gets_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = coloured(LINES, Stream(terminal=True))  # type: ignore[arg-type]
    assert shown == ["\033[32m+ chat/0\033[0m", "\033[31m- chat/1\033[0m", *LINES[2:]]
    assert coloured(LINES, Stream(terminal=False)) == LINES  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "plain"), [("1", True), ("anything", True), ("", False)])
def test_no_color_takes_the_colour_away(monkeypatch: pytest.MonkeyPatch, value: str, *, plain: bool) -> None:
    monkeypatch.setenv("NO_COLOR", value)
    assert (coloured(LINES, Stream(terminal=True)) == LINES) is plain  # type: ignore[arg-type]


@pytest.mark.parametrize("strange", ["\n", "\r\n", "\u2028", "\x1b[2J", "\x9b1m", "\u202e", "\u200f", "\ud800"])
def test_a_name_breaks_no_line_and_steers_no_terminal(strange: str) -> None:
    name = f"a{strange}+ chat/0"
    for shown in (page([name, "end"]), "\n".join(coloured([name, "end"], None))):
        first, last = shown.splitlines()
        assert (first[:3], last) == ("a\\u", "end")
        assert first.isprintable()


def test_output_that_nobody_takes_is_an_error_in_a_sentence() -> None:
    assert coloured(LINES, None) == LINES
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command = [sys.executable, "-m", "llmgw", "catalog", "schema"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_word_that_an_option_does_not_know_is_told_without_words_of_the_parser(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["nodes", "--sort", "foo"]) == 64
    said = capsys.readouterr().err
    assert "Invalid value for '--sort': 'foo' is not one of 'name', 'free'" in said


@pytest.mark.parametrize("command", [["catalog", "schema"], ["nodes", "-i", "inventory/showcase"]])
def test_a_closed_output_is_no_reason_to_fail(command: list[str]) -> None:
    words = shlex.join([sys.executable, "-m", "llmgw", *command])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        ["sh", "-c", f"{words} >&-"], capture_output=True, text=True, timeout=50, check=False, env=environment
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
