# SPDX-License-Identifier: Apache-2.0
"""What all tests share: how hypothesis searches, and which tests may not be skipped."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# A loaded machine is slow, not wrong: no deadline an example. CI looks at the same examples every time, so that a
# failure there belongs to the change; a developer's machine looks at new ones.
settings.register_profile("dev", deadline=None, max_examples=100)
settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "dev")

KINDS = ("engine", "fleet", "systemd")
REQUIRED = tuple(kind for kind in KINDS if os.environ.get(f"LLMGW_REQUIRE_{kind.upper()}") == "1")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """LLMGW_REQUIRE_FLEET=1 (or _ENGINE, _SYSTEMD) makes a skipped test of that kind a failed one, with the reason."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and any(item.get_closest_marker(kind) for kind in REQUIRED):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"{reason}, and this run requires it"
    return report


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden`: golden files become what the tests produce now."""
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files instead of comparing with them")


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are rewritten in this run."""
    return bool(request.config.getoption("--update-golden"))
