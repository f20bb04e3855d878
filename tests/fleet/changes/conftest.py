# SPDX-License-Identifier: Apache-2.0
"""One prepared fleet of simulators on the shared lab; every module leaves its hosts without units."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fleet.changes.fleet import ChangedFleet
from tests.fleet.lab.hosts import Lab


@pytest.fixture(scope="session")
def prepared(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> ChangedFleet:
    made = ChangedFleet(lab, tmp_path_factory.mktemp("changes"))
    made.prepare(tmp_path_factory.mktemp("wheel"))
    return made


@pytest.fixture(scope="module")
def fleet(prepared: ChangedFleet) -> Iterator[ChangedFleet]:
    yield prepared
    prepared.lab.thaw(*prepared.lab.hosts)
    prepared.empty()
