# SPDX-License-Identifier: Apache-2.0
"""`llmgw apply`: runs the playbook llmgw.fleet.apply and shows what happens, a line a host and replica (R3)."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from llmgw.apply.history import DONE, directory_of
from llmgw.apply.history import read as read_history
from llmgw.apply.inputs import find_paths
from llmgw.apply.moment import in_words, refuse_kept
from llmgw.apply.saved import Saved, planned_digest
from llmgw.apply.saved import read as read_saved
from llmgw.catalog.load import load_catalog
from llmgw.cli import options
from llmgw.cli.carry_out import Order, carry_out
from llmgw.cli.style import printable

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def apply(
    plan_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="PLANFILE",
            help="A plan that `llmgw plan --out` saved: carried out only if the same would be planned now.",
            show_default=False,
        ),
    ] = None,
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    catalog: options.Catalog = None,
    facts: options.Facts = None,
    lost: options.Lost = None,
    *,
    limit: options.Limit = None,
    history: options.History = None,
    allow_mass_loss: options.AllowMassLoss = False,
    check: Annotated[bool, typer.Option("--check", help="Change nothing, say what would change.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show the difference of every file that changes.")] = False,
    as_json: options.AsJson = False,
) -> int:
    """Discover the fleet, plan, and carry the plan out. The same as `ansible-playbook llmgw.fleet.apply`."""
    variables: dict[str, object] = {"llmgw_lost_nodes": lost or [], "llmgw_allow_mass_loss": allow_mass_loss}
    saved: Saved | None = None
    if plan_file is not None:
        if lost or limit or allow_mass_loss:
            raise typer.BadParameter(
                "a saved plan is of all hosts and has its own --lost and --allow-mass-loss: give none here, nor --limit"
            )
        saved = read_saved(plan_file)
        variables = {
            "llmgw_lost_nodes": list(saved.options.lost),
            "llmgw_allow_mass_loss": saved.options.allow_mass_loss,
            "llmgw_saved_plan": str(plan_file.resolve()),
        }
        limit = None if saved.options.limit is None else ",".join(saved.options.limit)
    paths = find_paths(inventory, catalog, facts)
    directory = directory_of(paths.facts, history)
    refuse_kept(paths.facts)
    load_catalog(paths.catalog)  # all its errors at once, before any host is touched
    if saved is not None:
        _tell_whether_done(saved, directory)
    return carry_out(
        Order(
            paths,
            directory,
            "apply",
            variables,
            check=check,
            diff=diff,
            limit=limit,
            as_json=as_json,
        )
    )


def _tell_whether_done(saved: Saved, directory: Path) -> None:
    """Says when a saved plan was carried out before: it is about to be refused for what it did itself."""
    planned = planned_digest(saved.plan)
    done = (one for one in read_history(directory, time.time()).records if one.planned == planned)
    before = next((one for one in done if one.outcome == DONE and planned), None)
    if before is not None:
        when = in_words(before.ended or before.began)
        told = f"it was carried out at {when} as generation {before.generation} (`llmgw history {before.id}`)"
        print(printable(told), file=sys.stderr)
