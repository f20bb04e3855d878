# SPDX-License-Identifier: Apache-2.0
"""A fleet directory, and the command called in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmgw.cli.main import run
from llmgw.fleet import inventory
from tests.support.fleet_directory import Called, FleetDirectory

_ask_ansible = inventory._ask_ansible


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, dict[str, object]]) -> FleetDirectory:
    """The fleet directory; ansible-inventory is asked once for each text of hosts.yml."""
    for name in ("LLMGW_INVENTORY", "LLMGW_CATALOG", "LLMGW_FACTS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def ask(path: Path) -> dict[str, object]:
        text = path.read_text(encoding="utf-8")
        if text not in answers:
            answers[text] = _ask_ansible(path)
        return answers[text]

    monkeypatch.setattr(inventory, "_ask_ansible", ask)
    return FleetDirectory(tmp_path)


@pytest.fixture(scope="session")
def answers() -> dict[str, dict[str, object]]:
    """What ansible-inventory answered to each text."""
    return {}


@pytest.fixture
def llmgw(capfd: pytest.CaptureFixture[str]) -> Callable[..., Called]:
    """Calls the command line in this process."""

    def call(*arguments: object) -> Called:
        capfd.readouterr()
        status = run([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Called(status, out, err)

    return call
