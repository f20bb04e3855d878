# SPDX-License-Identifier: Apache-2.0
"""Whole units, one file each in golden/."""

from __future__ import annotations

from pathlib import Path

from tests.support import golden
from tests.unit.units.unit_cases import cases

HERE = Path(__file__).parent


def test_units_are_as_the_golden_files(*, update_golden: bool) -> None:
    produced = {f"{name}.service": case.unit.text for name, case in cases().items()}
    golden.compare(HERE / "golden", produced, update=update_golden)
