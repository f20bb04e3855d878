# SPDX-License-Identifier: Apache-2.0
"""`manager`: one real systemd manager of our own for a file of tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from llmgw.demo.managers import private_manager
from llmgw.errors import LlmgwError
from tests.unit.units.real_manager import Units


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Units]:
    if os.geteuid() != 0:
        pytest.skip("only root can start a private systemd manager")
    try:
        found = private_manager(tmp_path_factory.mktemp("manager"))
    except LlmgwError as error:
        pytest.skip(str(error))
    yield Units(found)
    found.close()
