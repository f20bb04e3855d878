# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest
import typer

from llmgw.apply.lock import held
from llmgw.apply.reconcile_loop import Round
from llmgw.apply.reconcile_metrics import OUTCOMES, ReconcileCollector
from llmgw.apply.reconcile_report import News
from llmgw.apply.reconcile_state import LOCK, STATE
from llmgw.cli.reconcile_run import Ending, address, duration, ending, last_word, rounds, speaker, teller
from llmgw.errors import LlmgwError
from tests.support.fleet_directory import Called, FleetDirectory

Call = Callable[..., Called]
# A closed port of this machine refuses at once.
NOBODY = "all:\n  vars: {ansible_host: 127.0.0.1, ansible_port: 1}\n  children: {fleet: {hosts: {n1: }}}\n"


def test_a_round_that_reaches_nobody_changes_nothing_says_so_once_and_is_measured(
    directory: FleetDirectory, llmgw: Call
) -> None:
    directory.hosts(NOBODY)
    metrics = directory.path / "reconcile.prom"
    called = llmgw("reconcile", "--once", "-i", directory.path, "--metrics-file", metrics)
    assert called.status == 1
    assert "problem: no host could be read: nothing is changed" in called.out
    assert 'llmgw_reconcile_rounds_total{outcome="error"} 1.0' in metrics.read_text()
    assert "llmgw_reconcile_unreachable_nodes 1.0" in metrics.read_text()
    again = llmgw("reconcile", "--once", "--only-news", "-i", directory.path, "--metrics-file", metrics)
    assert (again.status, again.out) == (1, "")
    assert 'llmgw_reconcile_rounds_total{outcome="error"} 2.0' in metrics.read_text()
    assert json.loads((directory.facts / STATE).read_text())["rounds"] == {"error": 2}


def test_the_second_of_two_is_told_who_is_at_work(directory: FleetDirectory, llmgw: Call) -> None:
    with held(directory.facts / LOCK, 0):
        called = llmgw("reconcile", "--once", "-i", directory.path)
    assert called.status == 1
    assert f"another `llmgw reconcile` is at work for this fleet: process {os.getpid()} (since" in called.err
    assert called.out == ""


def test_facts_that_are_kept_to_be_looked_at_are_not_touched(directory: FleetDirectory, llmgw: Call) -> None:
    (directory.facts / "at").write_text("1000000\n")
    called = llmgw("reconcile", "--once", "-i", directory.path)
    assert called.status == 1
    assert "facts-kept" in called.err
    assert not (directory.facts / STATE).exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--once", "--metrics-listen", "127.0.0.1:9108"], "use --metrics-file with --once"),
        (["--only-news"], "go with --once"),
        (["--detailed-exitcode"], "go with --once"),
        (["--interval", "soon"], "`soon` is no duration"),
        (["--interval", "0.1s"], "from 1s to 1d"),
        (["--max-actions", "-1"], "max-actions"),
        (["--metrics-listen", "9108"], "127.0.0.1:9108"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    directory: FleetDirectory, llmgw: Call, options: list[str], said: str
) -> None:
    called = llmgw("reconcile", "-i", directory.path, *options)
    assert called.status == 64
    assert said in " ".join(called.err.split())


def test_metrics_that_could_never_be_written_are_told_of_before_anything_else(
    directory: FleetDirectory, llmgw: Call
) -> None:
    called = llmgw("reconcile", "--once", "-i", directory.path, "--metrics-file", directory.path / "no" / "file")
    assert called.status == 1
    assert "metrics cannot be written: its folder is not there" in called.err


@pytest.mark.parametrize(("text", "seconds"), [("60s", 60), ("5m", 300), ("90", 90), ("1h30m", 5400), ("1.5s", 1.5)])
def test_intervals_are_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


def test_addresses_are_a_host_and_a_port() -> None:
    assert address("127.0.0.1:9108") == ("127.0.0.1", 9108)
    assert address("[::1]:9108") == ("::1", 9108)
    for text in ("", ":1", "host", "host:", "host:0", "host:65536", "host:x"):
        with pytest.raises(typer.BadParameter):
            address(text)


class FakeLoop:
    """Rounds that end as they are told to."""

    def __init__(self, *ends: Round | LlmgwError, then: Callable[[], None]) -> None:
        self.ends = list(ends)
        self.then = then

    def round(self) -> Round:
        end = self.ends.pop(0)
        if not self.ends:
            self.then()
        if isinstance(end, LlmgwError):
            raise end
        return end


WELL = Round("in-order", 0)


@pytest.mark.parametrize(
    ("number", "last", "status"),
    [
        (signal.SIGTERM, WELL, 0),
        (signal.SIGINT, WELL, 130),
        (signal.SIGTERM, Round("interrupted", 130), 0),
        (signal.SIGTERM, Round("interrupted", 130, cut=True), 130),
    ],
)
def test_signals_end_the_rounds_and_the_status_says_whether_an_apply_was_cut(
    number: signal.Signals, last: Round, status: int
) -> None:
    before = signal.getsignal(number)
    told: list[int] = []
    with ending() as end:
        loop = FakeLoop(WELL, WELL, last, then=lambda: os.kill(os.getpid(), number))
        assert rounds(loop, lambda: told.append(1), end, print, 0.0) == status  # type: ignore[arg-type]
        assert end.asked.is_set()
    assert len(told) == 3
    assert signal.getsignal(number) is before


def test_a_signal_ends_the_wait_between_two_rounds() -> None:
    with ending() as end:
        killer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM))
        loop = FakeLoop(WELL, WELL, then=lambda: None)
        loop.then = killer.start
        loop.ends = [WELL]
        assert rounds(loop, lambda: None, end, print, 86_400.0) == 0  # type: ignore[arg-type]


def test_what_cannot_be_remembered_is_said_once_and_the_rounds_go_on() -> None:
    end, said = Ending(), list[News]()
    full = [LlmgwError("facts-unwritable", "no space left on device") for _round in range(3)]
    loop = FakeLoop(WELL, *full, WELL, then=end.asked.set)
    assert rounds(loop, lambda: None, end, said.append, 0.0) == 0  # type: ignore[arg-type]
    assert [one.text() for one in said] == ["problem: no space left on device [facts-unwritable]"]


def test_metrics_are_served_as_the_loop_last_told_them_and_a_port_in_use_is_named() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    teller(ReconcileCollector(), None, ("127.0.0.1", port))()
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        assert b'llmgw_reconcile_rounds_total{outcome="mended"} 0.0' in answer.read()
    with pytest.raises(LlmgwError, match=f"on 127.0.0.1 port {port}: Address already in use"):
        teller(ReconcileCollector(), None, ("127.0.0.1", port))


def test_a_file_of_metrics_that_cannot_be_written_fails_no_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teller(ReconcileCollector(), tmp_path / "gone" / "metrics.prom", None)()
    assert "metrics cannot be written: No such file or directory" in capsys.readouterr().err
    teller(ReconcileCollector(), tmp_path / "metrics.prom", None)()
    assert (tmp_path / "metrics.prom").stat().st_mode & 0o444 == 0o444


def test_lines_are_text_or_json_and_nothing_in_them_steers_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    news = News("drift", "n1  chat.0  \x1b[2Jstopped", {"kind": "stopped"}, gone=True)
    speaker(as_json=False, timed=False)(news)
    assert capsys.readouterr().out == "drift: gone: n1  chat.0  \\u001b[2Jstopped\n"
    speaker(as_json=False, timed=True)(news)
    assert capsys.readouterr().out[8:].startswith("Z drift: gone: ")
    speaker(as_json=False, timed=False)(News("apply", ""))
    assert capsys.readouterr().out == ""
    speaker(as_json=True, timed=True)(news)
    document = json.loads(capsys.readouterr().out)
    assert {key: document[key] for key in ("format_version", "event", "kind", "gone")} == {
        "format_version": 1,
        "event": "drift",
        "kind": "stopped",
        "gone": True,
    }
    assert document["at"].endswith("Z")


def test_one_round_has_a_last_word_however_it_ends() -> None:
    assert {outcome: last_word(outcome) for outcome in OUTCOMES}.keys() == set(OUTCOMES)
    assert last_word("in-order").startswith("Nothing to do")
