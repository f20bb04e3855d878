# SPDX-License-Identifier: Apache-2.0
"""The showcase read once, and what llmgw decides for it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from llmgw.apply.inputs import Inputs, find_paths, read_inputs
from llmgw.cli.main import run
from llmgw.decide import Decision, decide
from llmgw.fleet import inventory
from llmgw.placement.assign import Outcome, place
from tests.support.fleet_directory import Called
from tests.support.showcase.files import FOLDER


@pytest.fixture(scope="session")
def inputs() -> Inputs:
    """The inputs as every command reads them."""
    return read_inputs(find_paths(FOLDER), time.time())


@pytest.fixture(scope="session")
def decision(inputs: Inputs) -> Decision:
    """The plan with its units and routes."""
    return decide(inputs.catalog, inputs.fleet)


@pytest.fixture(scope="session")
def outcome(inputs: Inputs) -> Outcome:
    """The placement alone."""
    return place(inputs.catalog, inputs.fleet)


@pytest.fixture(scope="session")
def answer() -> dict[str, object]:
    """What ansible-inventory says of the fleet; it is asked once."""
    return inventory._ask_ansible(FOLDER / "hosts.yml")


@pytest.fixture
def asked_once(monkeypatch: pytest.MonkeyPatch, answer: dict[str, object]) -> None:
    """Nobody asks ansible-inventory again."""
    monkeypatch.setattr(inventory, "_ask_ansible", lambda _path: answer)


@pytest.fixture
def llmgw(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, asked_once: None
) -> Callable[..., Called]:
    """Calls the command line in this process, in the project's folder."""
    assert asked_once is None
    monkeypatch.chdir(FOLDER.parents[1])
    for name in ("LLMGW_INVENTORY", "LLMGW_CATALOG", "LLMGW_FACTS", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: object) -> Called:
        capfd.readouterr()
        status = run([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Called(status, out, err)

    return call
