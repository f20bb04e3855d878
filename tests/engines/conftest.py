# SPDX-License-Identifier: Apache-2.0
"""Tests with real engines: they download some hundred megabytes and take minutes, so that only `-m engines`, as in
`make test-engines`, runs them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mine = [item for item in items if item.path.is_relative_to(_HERE)]
    for item in mine:
        item.add_marker(pytest.mark.engines)
    if mine and "engines" not in config.option.markexpr:
        config.hook.pytest_deselected(items=mine)
        items[:] = [item for item in items if item not in mine]
