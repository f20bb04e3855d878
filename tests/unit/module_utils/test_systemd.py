# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils import systemd
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Result
from tests.support.fake_host import FakeHost

TWO_UNITS = "Id=a.service\nLoadState=loaded\nControlGroup=/x=y\n\nId=b.service\nLoadState=not-found\n"


class Answering(FakeHost):
    """Answers every command alike."""

    def __init__(self, answer: Result) -> None:
        super().__init__()
        self.answer = answer

    def run(self, argv: Sequence[str], timeout_s: float, stdin: str | None = None) -> Result:
        assert timeout_s > 0
        assert stdin is None
        self.ran.append(" ".join(argv))
        return self.answer


def test_properties_come_by_unit_and_keep_their_equal_signs() -> None:
    shown = systemd.parse_show(TWO_UNITS)
    assert shown["a.service"]["ControlGroup"] == "/x=y"
    assert shown["b.service"] == {"Id": "b.service", "LoadState": "not-found"}


@given(st.text())
def test_no_output_of_systemctl_breaks_the_reader(output: str) -> None:
    for name, properties in systemd.parse_show(output).items():
        assert properties["Id"] == name


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("Mon 2026-11-30 02:35:11 UTC", 1796006111.0), ("", None), ("n/a", None), ("Mon 2026-11-30 02:35:11 CET", None)],
)
def test_timestamps_are_read_in_utc_only(written: str, seconds: float | None) -> None:
    assert systemd.parse_timestamp(written) == seconds


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("1min 30s", 90.0), ("2h 500ms", 7200.5), ("1.5s", 1.5), ("infinity", None), ("", None), ("5 parsecs", None)],
)
def test_time_spans_are_read_as_systemd_writes_them(written: str, seconds: float | None) -> None:
    assert systemd.parse_span(written) == seconds


def test_one_command_asks_about_all_units() -> None:
    host = Answering(Result(0, TWO_UNITS, ""))
    shown = systemd.Manager(host, systemd.SYSTEM).show(["a.service", "b.service"])
    assert sorted(shown) == ["a.service", "b.service"]
    assert len(host.ran) == 1
    assert host.ran[0].startswith("env TZ=UTC systemctl show --property=Id,")
    assert host.ran[0].endswith(" -- a.service b.service")


def test_nothing_is_asked_about_no_units() -> None:
    host = Answering(Result(1, "", "no"))
    assert systemd.Manager(host, systemd.USER).show([]) == {}
    assert host.ran == []


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (Result(1, "", "Failed to connect to bus\n"), "systemctl daemon-reload: Failed to connect to bus"),
        (Result(-9, "", "", timed_out=True), "systemctl daemon-reload: no answer in time"),
        (Result(4, "", ""), "systemctl daemon-reload: exit status 4"),
    ],
)
def test_a_failed_command_is_an_error_that_says_which(result: Result, message: str) -> None:
    with pytest.raises(systemd.SystemdError) as failed:
        systemd.Manager(Answering(result), systemd.USER).daemon_reload()
    assert str(failed.value) == message


def test_each_scope_has_its_own_units_and_its_own_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert systemd.Manager(FakeHost(), systemd.SYSTEM).unit_dir == "/etc/systemd/system"
    assert systemd.Manager(FakeHost(), systemd.USER).unit_dir == "/home/ops/.config/systemd/user"
    monkeypatch.setenv("XDG_CONFIG_HOME", "/elsewhere")
    assert systemd.Manager(FakeHost(), systemd.USER).unit_dir == "/elsewhere/systemd/user"
    host = Answering(Result(0, "", ""))
    systemd.Manager(host, systemd.USER).restart(["a.service"])
    assert host.ran == ["systemctl --user --quiet --no-block --no-ask-password restart -- a.service"]


def test_a_complaint_about_one_unit_does_not_hide_the_others() -> None:
    host = Answering(Result(1, "", "Failed to restart a.service: Unit not found.\n"))
    assert systemd.Manager(host, systemd.SYSTEM).restart(["a.service", "b.service"]) == (
        "Failed to restart a.service: Unit not found"
    )


def test_a_log_file_is_found_in_the_units_text() -> None:
    assert systemd.log_path("[Service]\nStandardOutput=append:/var/lib/llmgw/logs/a.log\n") == (
        "/var/lib/llmgw/logs/a.log"
    )
    assert systemd.log_path("[Service]\nStandardOutput=journal\n") is None
    assert systemd.log_path(None) is None


def test_a_log_without_control_characters_and_journal_remarks_is_shown() -> None:
    host = Answering(Result(0, "-- No entries --\none\x1b[31m\n\n\ttwo\x00\n", ""))
    log = systemd.Manager(host, systemd.SYSTEM).log("a.service", None, since=12.9)
    assert systemd.tail_of(log, 5) == "one[31m\n        two"
    assert systemd.tail_of(log, 1) == "        two"
    assert host.ran == ["journalctl --no-pager -o cat --lines=2000 --since=@12 --unit=a.service"]


def test_a_log_of_no_known_beginning_is_asked_for_without_one() -> None:
    host = Answering(Result(0, "one\n", ""))
    systemd.Manager(host, systemd.USER).log("a.service", None, since=None)
    assert host.ran == ["journalctl --user --no-pager -o cat --lines=2000 --unit=a.service"]


def test_what_systemd_says_of_a_unit_is_told_from_what_its_processes_print() -> None:
    log = "error: of the engine before\nllmgw-a.0.0.service: Failed to set up credentials\nof llmgw-a.0.0.service: no\n"
    assert systemd.own_words("llmgw-a.0.0.service", log) == "llmgw-a.0.0.service: Failed to set up credentials"


def test_what_is_shown_of_a_log_is_bounded() -> None:
    assert len(systemd.tail_of("x" * 100_000 + "\n" + "y" * 100_000, 40)) == 8192


def test_lingering_is_left_alone_where_nobody_ends_sessions() -> None:
    assert systemd.Manager(FakeHost(), systemd.USER).keep_after_logout() is None
    assert systemd.Manager(FakeHost({"/run/systemd/users/0": ""}), systemd.SYSTEM).keep_after_logout() is None


def test_lingering_is_enabled_once_and_a_refusal_is_said() -> None:
    files = {"/run/systemd/users/1000": ""}
    commands: dict[str, Result | str] = {"id --user --name": "ops\n"}
    refusing = FakeHost(
        files, commands={**commands, "loginctl --no-ask-password enable-linger": Result(1, "", "denied")}
    )
    warning = systemd.Manager(refusing, systemd.USER).keep_after_logout()
    assert warning is not None
    assert "loginctl enable-linger ops" in warning
    allowing = FakeHost(files, commands={**commands, "loginctl --no-ask-password enable-linger": ""})
    assert systemd.Manager(allowing, systemd.USER).keep_after_logout() is None
    lingering = FakeHost({**files, "/var/lib/systemd/linger/ops": ""}, commands=commands)
    assert systemd.Manager(lingering, systemd.USER).keep_after_logout() is None
    assert lingering.ran == ["id --user --name"]
