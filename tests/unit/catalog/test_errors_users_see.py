# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from llmgw.catalog import codes
from llmgw.catalog.compile import compile_catalog
from llmgw.errors import LlmgwError, LlmgwErrors
from tests.unit.catalog import golden

PATHS = sorted(golden.FOLDER.glob("*.txt"))
CASES = [pytest.param(case, id=f"{path.stem}: {case.title}") for path in PATHS for case in golden.read(path)]


@pytest.mark.parametrize("case", CASES)
def test_users_are_told_of_every_mistake_where_it_is(case: golden.Case) -> None:
    assert case.told() == case.expected


def test_every_code_is_shown_by_a_case() -> None:
    shown = {error.code for path in PATHS for case in golden.read(path) for error in _errors(case)}
    # Only reading from disk can give these; test_load.py has them.
    assert shown == set(codes.MEANINGS) - {codes.FILE}


@pytest.mark.parametrize("case", CASES)
def test_every_error_has_a_place_a_reason_and_a_fix(case: golden.Case) -> None:
    for error in _errors(case):
        assert error.where is not None
        assert error.why
        assert error.fix
        assert "Input should" not in str(error)


def _errors(case: golden.Case) -> tuple[LlmgwError, ...]:
    try:
        compile_catalog(case.files, case.overlays)
    except LlmgwErrors as errors:
        return errors.errors
    return ()
