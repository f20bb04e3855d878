# SPDX-License-Identifier: Apache-2.0
"""`llmgw diff`: unit by unit, what an apply would change in the files, and what has drifted (R2)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from llmgw.apply.inputs import find_paths, read_inputs
from llmgw.apply.unitdiff import unit_diffs
from llmgw.cli import exits, moment, options
from llmgw.cli.cells import plural
from llmgw.cli.style import coloured, printable
from llmgw.decide import Options, decide
from llmgw.model.node import FleetSnapshot

DIFF_FORMAT = 1
_NAMED = 8
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def diff(
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    catalog: options.Catalog = None,
    facts: options.Facts = None,
    lost: options.Lost = None,
    *,
    as_json: options.AsJson = False,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="End with 2 when any unit differs.")
    ] = False,
) -> int:
    """Show what would change, unit by unit. Compares the nodes, as last seen, with the catalog."""
    paths = find_paths(inventory, catalog, facts)
    moment.tell(paths.facts)
    inputs = read_inputs(paths, time.time(), lost or ())
    for problem in inputs.problems:
        print(printable(problem), file=sys.stderr)
    found = unit_diffs(decide(inputs.catalog, inputs.fleet, Options(inputs=inputs.digests)), inputs.fleet)
    if as_json:
        print(json.dumps({"format_version": DIFF_FORMAT, "units": [asdict(one) for one in found]}, indent=2))
    else:
        for one in found:
            drift = f" ({', '.join(one.drift)})" if one.drift else ""
            print(
                "\n".join(
                    coloured([f"! {one.node}: {one.unit} would be {one.change}{drift}", *one.diff, ""], sys.stdout)
                )
            )
        for line in _last_words(inputs.fleet, differs=bool(found)):
            print(printable(line))
    return exits.CHANGES if detailed_exitcode and found else exits.OK


def _last_words(fleet: FleetSnapshot, *, differs: bool) -> Iterator[str]:
    """That nothing differs, where it is so, and of which nodes nobody can tell."""
    unknown = [node.name for node in fleet.nodes if node.facts is None or node.facts.units is None]
    if not differs and len(unknown) < len(fleet.nodes):
        yield "No unit differs on the nodes that are known." if unknown else "No unit differs."
    elif not differs and not unknown:
        yield "No unit differs."
    if unknown:
        more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        those = f"{plural(len(unknown), 'node')} ({', '.join(unknown[:_NAMED])}{more})"
        yield f"Nothing is known of the units of {those}: `llmgw facts refresh` reads them."
