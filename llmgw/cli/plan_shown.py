# SPDX-License-Identifier: Apache-2.0
"""How `llmgw plan` shows a plan: as text, as JSON, or as a comment of a pull request."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from llmgw.apply.inputs import Inputs
from llmgw.cli.style import coloured
from llmgw.decide import Decision
from llmgw.model.node import FleetSnapshot
from llmgw.plan.after_text import after_lines
from llmgw.plan.codec import plan_document
from llmgw.plan.facts_age import age_in_words, old_facts_line, oldest_facts
from llmgw.plan.text import plan_lines, wave_lines


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown. `every`: also what stays, and what each service, node and class of devices has afterwards."""

    every: bool = False
    waves: bool = False
    as_json: bool = False
    markdown: bool = False


def show(decision: Decision, inputs: Inputs, shown: Shown) -> None:
    """Print the plan."""
    if shown.as_json:
        print(json.dumps(plan_document(decision.plan), indent=2))
    elif shown.markdown:
        from llmgw.plan.markdown import Footing, plan_markdown

        oldest = oldest_facts(inputs.fleet)
        age = None if oldest is None else _at_most(age_in_words(oldest[0]))
        print(plan_markdown(decision.plan, Footing(age, inputs.catalog.digest)), end="")
    else:
        print("\n".join(coloured(_lines(decision, inputs, shown), sys.stdout)))


def age_line(fleet: FleetSnapshot) -> str | None:
    """How old the facts are that a plan was made from; None where there are none with an age."""
    oldest = oldest_facts(fleet)
    if oldest is None:
        return None
    return old_facts_line(fleet) or f"The facts are {_at_most(age_in_words(oldest[0]))} old."


def _at_most(age: str) -> str:
    return age if age.startswith("less") else f"up to {age}"


def _lines(decision: Decision, inputs: Inputs, shown: Shown) -> Iterator[str]:
    yield from plan_lines(decision.plan, every_action=shown.every)
    if shown.waves and decision.plan.changes:
        yield from ("", *wave_lines(decision.plan))
    if shown.every:
        title = "After this plan:" if decision.plan.changes else "As it stands:"
        yield from ("", *after_lines(inputs.catalog, decision.placement, inputs.fleet, title=title))
    line = age_line(inputs.fleet)
    if line is not None:
        yield line
