# SPDX-License-Identifier: Apache-2.0
"""`llmgw apply`: runs the playbook llmgw.fleet.apply and shows what happens, a line a host and replica (R3)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llmgw.apply.history import directory_of
from llmgw.apply.inputs import find_paths
from llmgw.apply.moment import refuse_kept
from llmgw.catalog.load import load_catalog
from llmgw.cli import options
from llmgw.cli.carry_out import Order, carry_out
from llmgw.cli.style import printable

if TYPE_CHECKING:
    from llmgw.apply.saved import Saved

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
    if plan_file is not None:
        if lost or limit or allow_mass_loss:
            raise typer.BadParameter("a saved plan has its own --lost, --limit and --allow-mass-loss: give none here")
        saved = _saved(plan_file)
        variables = {
            "llmgw_lost_nodes": list(saved.options.lost),
            "llmgw_allow_mass_loss": saved.options.allow_mass_loss,
            "llmgw_saved_plan": str(plan_file.resolve()),
        }
        limit = None if saved.options.limit is None else ",".join(saved.options.limit)
    paths = find_paths(inventory, catalog, facts)
    refuse_kept(paths.facts)
    load_catalog(paths.catalog)  # all its errors at once, before any host is touched
    return carry_out(
        Order(
            paths,
            directory_of(paths.facts, history),
            "apply",
            variables,
            check=check,
            diff=diff,
            limit=limit,
            as_json=as_json,
        )
    )


def _saved(path: Path) -> Saved:
    """The plan in the file, with a word of whose it is. Raises LlmgwError `saved-plan`."""
    from llmgw.apply.moment import in_words
    from llmgw.apply.saved import read

    saved = read(path)
    when = "" if saved.saved_at is None else f" at {in_words(saved.saved_at)}"
    print(printable(f"plan saved by {saved.saved_by or 'somebody'}{when}"), file=sys.stderr)
    return saved
