# SPDX-License-Identifier: Apache-2.0
"""A private systemd manager for the session, and a clean node for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgw.demo.managers import private_manager
from llmgw.errors import LlmgwError
from tests.systemd.node import Node, Wrapped


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below this directory needs a manager."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.systemd)


@pytest.fixture(scope="session")
def wrapped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wrapped]:
    """The way to a manager of our own, also where the machine has one: tests must not meet units that matter."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a private systemd manager")
    try:
        manager = private_manager(tmp_path_factory.mktemp("manager"))
    except LlmgwError as error:
        pytest.skip(str(error))
    yield Wrapped(manager.argv_prefix, manager.environment)
    manager.close()


@pytest.fixture
def node(wrapped: Wrapped, tmp_path: Path) -> Iterator[Node]:
    """A node without units."""
    fresh = Node(wrapped, tmp_path / "state")
    yield fresh
    fresh.clear()
