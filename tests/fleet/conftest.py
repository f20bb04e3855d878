# SPDX-License-Identifier: Apache-2.0
"""Real hosts for the tests below: `lab` is one lab for all of them, whose tests leave every host as they found it.

LLMGW_FLEET_HOSTS sets its number of hosts (4), LLMGW_LAB_DIR where the hosts' root is kept, and LLMGW_REQUIRE_FLEET=1
makes a machine that cannot run a lab a failure instead of a skip.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.lab.errors import LabError
from tests.fleet.lab.gold import gold
from tests.fleet.lab.hosts import Lab
from tests.fleet.lab.obstacles import obstacles

_HERE = Path(__file__).parent
_OBSTACLES = pytest.StashKey[str]()
_BUILD_FAILURE = pytest.StashKey[str]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.fleet)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds the hosts' root before the first test, whose time limit it would exceed, with its progress to be seen."""
    config = session.config
    if config.option.collectonly or not any(item.path.is_relative_to(_HERE) for item in session.items):
        return
    config.stash[_BUILD_FAILURE] = ""
    config.stash[_OBSTACLES] = "; ".join(obstacles())
    if config.stash[_OBSTACLES]:
        return
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            with gold():
                pass
        except LabError as error:
            config.stash[_BUILD_FAILURE] = str(error)


@pytest.fixture(scope="session", autouse=True)
def _lab_can_run(pytestconfig: pytest.Config) -> None:
    failure = pytestconfig.stash[_BUILD_FAILURE]
    if failure:
        pytest.fail(failure, pytrace=False)
    found = pytestconfig.stash[_OBSTACLES]
    if not found:
        return
    if os.environ.get("LLMGW_REQUIRE_FLEET") == "1":
        pytest.fail(f"LLMGW_REQUIRE_FLEET=1, but {found}", pytrace=False)
    pytest.skip(found)


@pytest.fixture(scope="session")
def lab(_lab_can_run: None) -> Iterator[Lab]:
    with Lab(int(os.environ.get("LLMGW_FLEET_HOSTS", "4"))) as running:
        yield running
