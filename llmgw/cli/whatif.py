# SPDX-License-Identifier: Apache-2.0
"""`llmgw plan` over what is supposed: its options as data, and the answer as text or JSON. Writes nothing."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import typer

from llmgw.apply.inputs import Inputs
from llmgw.cli.style import coloured, page
from llmgw.cli.whatif_options import Given
from llmgw.decide import Options, decide
from llmgw.errors import LlmgwError
from llmgw.model.node import FleetSnapshot
from llmgw.model.placement import Placement
from llmgw.model.plan import Plan
from llmgw.model.replica import Catalog
from llmgw.plan.text import plan_lines, wave_lines
from llmgw.whatif.difference import compare, side
from llmgw.whatif.document import whatif_document
from llmgw.whatif.smallest import smallest
from llmgw.whatif.spec import NodesSpec, kind_spec, nodes_spec
from llmgw.whatif.suppose import Suppositions, suppose
from llmgw.whatif.text import difference_lines, smallest_lines, supposed_lines

T = TypeVar("T")
_SCALE = re.compile(r"(?P<service>[^=]+)=(?P<number>[0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Shown:
    """How the answer is shown."""

    every: bool = False
    waves: bool = False
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What is supposed, and the kind of node that is looked for, if one is."""

    supposed: Suppositions
    kind: NodesSpec | None = None


def read(given: Given) -> Question:
    """The options as data. Raises BadParameter for what is written wrongly."""
    supposed = Suppositions(
        nodes=tuple(_read(nodes_spec, text) for text in given.with_nodes or ()),
        without=tuple(given.without or ()),
        drained=tuple(given.drain or ()),
        cordoned=tuple(given.cordon or ()),
        uncordoned=tuple(given.uncordon or ()),
        scale=tuple(map(_scale, given.scale or ())),
    )
    return Question(supposed, None if given.smallest is None else _read(kind_spec, given.smallest))


def answer(inputs: Inputs, question: Question, options: Options, shown: Shown) -> Plan:
    """Print the answer; its plan. Raises LlmgwError for names that are not there."""
    looked_for = question.kind
    options = replace(options, inputs=None)
    supposed = suppose(inputs.catalog, inputs.fleet, question.supposed)
    found = None if looked_for is None else smallest(supposed.catalog, supposed.fleet, looked_for, _judge(options))
    if looked_for is not None and found is not None and found.nodes:
        more = Suppositions(nodes=(replace(looked_for, count=found.nodes),))
        with_them = suppose(supposed.catalog, supposed.fleet, more)
        supposed = replace(with_them, said=(*supposed.said, *with_them.said))
    after = side(supposed.catalog, supposed.fleet, options)
    difference, plan = compare(side(inputs.catalog, inputs.fleet, options), after), after.decision.plan
    if shown.as_json:
        print(json.dumps(whatif_document(supposed.said, plan, difference, found), indent=2))
    else:
        lines = [] if found is None else [*smallest_lines(found), ""]
        lines += [*supposed_lines(supposed.said), ""] if supposed.said else []
        lines += [*difference_lines(difference), "", "The plan as supposed:"]
        lines += plan_lines(plan, every_action=shown.every)
        lines += ["", *wave_lines(plan)] if shown.waves else []
        print("\n".join(coloured(lines, sys.stdout)))
    return plan


def _judge(options: Options) -> Callable[[Catalog, FleetSnapshot], Placement]:
    return lambda catalog, fleet: decide(catalog, fleet, options).placement


def supposed_of(inputs: Inputs, question: Question, *, as_json: bool) -> tuple[Catalog, FleetSnapshot]:
    """The catalog and the fleet as supposed; says what was supposed, before a text on stdout, beside JSON on stderr."""
    supposed = suppose(inputs.catalog, inputs.fleet, question.supposed)
    print(
        page([*supposed_lines(supposed.said), *([] if as_json else [""])]), file=sys.stderr if as_json else sys.stdout
    )
    return supposed.catalog, supposed.fleet


def _read(reader: Callable[[str], T], text: str) -> T:
    try:
        return reader(text)
    except LlmgwError as error:
        raise typer.BadParameter(f"{error.why}: {error.fix}") from error


def _scale(text: str) -> tuple[str, int]:
    found = _SCALE.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"`{text}` is no service and number of replicas: write SERVICE=N, such as chat=4")
    return found["service"], int(found["number"])
