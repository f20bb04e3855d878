# SPDX-License-Identifier: Apache-2.0
"""docs/reference/constraints.md names every constraint and every term of the score that there is, and no other."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from llmgw.placement import groups
from llmgw.placement.feasibility import CONSTRAINTS
from llmgw.placement.score import WEIGHTS
from llmgw.placement.why.checks import MET
from llmgw.placement.why.relax import FIXES

REFERENCE = Path(__file__).parents[3] / "docs/reference/constraints.md"
NAME_AT = {"_no": 2, "_short": 2, "Rejection": 3}
"""Where the calls that make a rejection have its name."""


def documented(heading: str) -> list[str]:
    """First cells of the table below a heading."""
    text = REFERENCE.read_text(encoding="utf-8")
    section = re.split(r"^#+ ", text[text.index(heading) + len(heading) :], maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)


def made() -> Iterator[str]:
    """Names in every call that makes a rejection, in the modules of the constraints."""
    modules = {inspect.getmodule(one) for one in (*CONSTRAINTS, groups.rejections)}
    for source in sorted(module.__file__ or "" for module in modules if module is not None):
        for call in ast.walk(ast.parse(Path(source).read_text(encoding="utf-8"))):
            at = NAME_AT.get(getattr(call.func, "id", ""), 99) if isinstance(call, ast.Call) else 99
            if isinstance(call, ast.Call) and len(call.args) > at:
                name = call.args[at]
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield name.value


def test_every_constraint_is_in_the_reference_and_no_other() -> None:
    assert sorted(documented("# Constraints")) == sorted(set(made()))


def test_every_constraint_can_be_shown_for_one_node() -> None:
    assert set(made()) <= set(MET)


def test_remedies_are_for_constraints_that_there_are() -> None:
    assert set(FIXES) <= set(made())


def test_every_term_of_the_score_is_in_the_reference_in_its_order() -> None:
    assert documented("## Score") == list(WEIGHTS)
