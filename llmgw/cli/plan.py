# SPDX-License-Identifier: Apache-2.0
"""`llmgw plan`: what an apply would change and why, from the facts stored last. Touches nothing and no host."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated

import typer

from llmgw.apply.inputs import find_paths, read_inputs
from llmgw.cli import exits, options
from llmgw.cli.style import coloured, printable
from llmgw.decide import Options, decide
from llmgw.plan.codec import plan_document
from llmgw.plan.text import plan_lines, wave_lines

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def plan(
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    catalog: options.Catalog = None,
    facts: options.Facts = None,
    lost: options.Lost = None,
    *,
    allow_mass_loss: options.AllowMassLoss = False,
    every: Annotated[bool, typer.Option("--all", help="Show unchanged replicas too.")] = False,
    waves: Annotated[bool, typer.Option("--waves", help="Show the waves in which an apply would go.")] = False,
    as_json: options.AsJson = False,
    detailed_exitcode: Annotated[
        bool,
        typer.Option(
            "--detailed-exitcode",
            help="End with 2 when there are changes; 3, for what cannot be placed, needs no option.",
        ),
    ] = False,
) -> int:
    """Show what an apply would change and why. Uses stored facts: `llmgw facts refresh` renews them."""
    inputs = read_inputs(find_paths(inventory, catalog, facts), time.time(), lost or ())
    for problem in inputs.problems:
        print(printable(problem), file=sys.stderr)
    decision = decide(inputs.catalog, inputs.fleet, Options(allow_mass_loss=allow_mass_loss, inputs=inputs.digests))
    if as_json:
        print(json.dumps(plan_document(decision.plan), indent=2))
    else:
        lines = plan_lines(decision.plan, every_action=every) + (["", *wave_lines(decision.plan)] if waves else [])
        print("\n".join(coloured(lines, sys.stdout)))
    if decision.plan.unplaced:
        return exits.UNPLACED
    return exits.CHANGES if detailed_exitcode and decision.plan.changes else exits.OK
