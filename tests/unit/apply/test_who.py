# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import getpass
import socket

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmgw.apply.who import LONGEST, VARIABLE, whoami


@pytest.fixture(autouse=True)
def ops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(getpass, "getuser", lambda: "ops")
    monkeypatch.setattr(socket, "gethostname", lambda: "ctl1")


def test_it_is_the_user_at_the_controller() -> None:
    assert whoami() == "ops@ctl1"


def test_a_variable_says_who_it_is_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, " pipeline 4711\n")
    assert whoami() == "pipeline 4711"
    monkeypatch.setenv(VARIABLE, " \t")
    assert whoami() == "ops@ctl1"


@pytest.mark.parametrize("error", [OSError("no"), KeyError("uid not found"), ImportError("pwd")])
def test_a_user_without_a_name_is_unknown(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def nobody() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert whoami() == "unknown@ctl1"


def test_a_host_without_a_name_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise OSError

    monkeypatch.setattr(socket, "gethostname", nowhere)
    assert whoami() == "ops@unknown"


@given(st.text(), st.text())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_is_one_short_line_whatever_the_names_hold(monkeypatch: pytest.MonkeyPatch, user: str, host: str) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: user)
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    said = whoami()
    assert 0 < len(said) <= LONGEST
    assert said.isprintable()
