# SPDX-License-Identifier: Apache-2.0
"""The most telling cells of the fault matrix; `make fault-matrix` runs all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.faults.cells import run_cell
from tests.fleet.faults.injection import FAULTS
from tests.fleet.faults.site import FaultSite
from tests.fleet.faults.steps import STEPS
from tests.fleet.lab.hosts import Lab

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def prepared(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultSite]:
    made = FaultSite(lab, tmp_path_factory.mktemp("faults"))
    made.prepare(tmp_path_factory.mktemp("wheel"))
    yield made
    made.clear()


@pytest.fixture
def site(prepared: FaultSite) -> Iterator[FaultSite]:
    yield prepared
    if prepared.shape is None:
        prepared.recover()


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        ("units", "kill controller"),
        pytest.param("units", "crash node", marks=pytest.mark.long),
        pytest.param("start", "freeze node", marks=pytest.mark.long),
        pytest.param("start", "disk full", marks=pytest.mark.long),
        pytest.param("stop", "cut from gateway", marks=pytest.mark.long),
    ],
)
def test_a_rollout_under_load_survives(site: FaultSite, step: str, fault: str, tmp_path: Path) -> None:
    rows, columns = {one.name: one for one in STEPS}, {one.name: one for one in FAULTS}
    cell = run_cell(site, rows[step], columns[fault], tmp_path)
    assert not cell.problems, "\n".join([*cell.problems, cell.output])
