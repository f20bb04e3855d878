# SPDX-License-Identifier: Apache-2.0
"""`llmgw apply`: runs the playbook llmgw.fleet.apply and shows what happens, a line a host and replica (R3)."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from llmgw.apply.events import Progress, exit_status, unexplained
from llmgw.apply.inputs import find_paths
from llmgw.apply.moment import refuse_kept
from llmgw.apply.runner import Run, run_playbook
from llmgw.catalog.load import load_catalog
from llmgw.cli import exits, options
from llmgw.cli.style import coloured, printable

APPLY_FORMAT = 1
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def apply(
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    catalog: options.Catalog = None,
    facts: options.Facts = None,
    lost: options.Lost = None,
    limit: options.Limit = None,
    *,
    allow_mass_loss: options.AllowMassLoss = False,
    check: Annotated[bool, typer.Option("--check", help="Change nothing, say what would change.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show the difference of every file that changes.")] = False,
    as_json: options.AsJson = False,
) -> int:
    """Discover the fleet, plan, and carry the plan out. The same as `ansible-playbook llmgw.fleet.apply`."""
    paths = find_paths(inventory, catalog, facts)
    refuse_kept(paths.facts)
    load_catalog(paths.catalog)  # all its errors at once, before any host is touched
    progress = Progress()

    def show(event: dict[str, object]) -> None:
        lines = progress.feed(event, diff=diff)
        if lines and not as_json:
            print("\n".join(coloured(lines, sys.stdout)), flush=True)

    variables = {"llmgw_lost_nodes": lost or [], "llmgw_allow_mass_loss": allow_mass_loss}
    ansible = run_playbook(Run("llmgw.fleet.apply", paths, variables, check=check, diff=diff, limit=limit), show)
    status = exit_status(progress, ansible)
    progress.errors += unexplained(progress, ansible)
    if status in (exits.OK, exits.UNPLACED) and not progress.answered:
        progress.errors.append("No host answered, so nothing was looked at and nothing was done.")
        status = exits.ERROR
    for error in progress.errors:
        print(printable(error), file=sys.stderr)
    if as_json:
        print(json.dumps({"format_version": APPLY_FORMAT, "status": status, **progress.document()}, indent=2))
    elif status == exits.INTERRUPTED:
        print("llmgw: interrupted; what was begun, the next apply sees and finishes", file=sys.stderr)
    elif status == 0:
        would = " would be" if check else ""
        print(f"Done: {len(progress.changed)} things{would} changed.")
    return status
