# SPDX-License-Identifier: Apache-2.0
"""`llmgw rollback`: applies the catalog of an earlier apply again (R4)."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from llmgw.apply.history import ROLLBACK, Record, directory_of, read
from llmgw.apply.history_catalogs import unpack
from llmgw.apply.history_choice import name_of, rollback_target
from llmgw.apply.inputs import Paths, find_paths
from llmgw.apply.moment import in_words, refuse_kept
from llmgw.apply.run_folder import run_folder
from llmgw.catalog.load import load_catalog
from llmgw.cli import exits, options
from llmgw.cli.carry_out import Order, carry_out
from llmgw.cli.style import printable
from llmgw.errors import LlmgwError, LlmgwErrors, Where

_NOT_THROUGH = (
    "The fleet has not gone back as a whole: see above what is in the way, then run `llmgw rollback {name}` again."
)
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def rollback(
    generation: Annotated[
        str | None,
        typer.Argument(
            metavar="GENERATION",
            help="Apply the catalog of this generation (or id) of `llmgw history`. [default: what served before: the"
            " newest apply that went well, as a whole, with another catalog than the present one]",
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
    """Apply the catalog of an earlier apply again: an apply like any other, in waves, as the history kept it.

    The catalog in git stays as it is, and the next apply goes by it: put it right there too.
    """
    paths = find_paths(inventory, catalog, facts)
    refuse_kept(paths.facts)
    directory = directory_of(paths.facts, history)
    found = read(directory, time.time())
    for problem in found.problems:
        print(printable(problem), file=sys.stderr)
    target = rollback_target(found, generation)
    name = name_of(found, target)
    named = {"id": target.id, "generation": target.generation}
    with run_folder() as folder:
        main = _catalog(directory, target, name, folder)
        status = carry_out(
            Order(
                Paths(paths.inventory, main, paths.facts),
                directory,
                f"{ROLLBACK} {name}",
                {"llmgw_lost_nodes": lost or [], "llmgw_allow_mass_loss": allow_mass_loss},
                check=check,
                diff=diff,
                limit=limit,
                as_json=as_json,
                told={"target": named},
                told_when_done={} if check else {"rolled_back_to": named},
                opening=f"going back to {_named(target)}",
            )
        )
        rolled_back = load_catalog(main).digest
    if status in (exits.UNPLACED, exits.PARTIAL) and not check:
        print(printable(_NOT_THROUGH.format(name=name)), file=sys.stderr)
    if status in (exits.OK, exits.UNPLACED, exits.PARTIAL):
        _tell_of_git(paths.catalog, rolled_back, name, done=status == exits.OK, check=check)
    return status


def _catalog(directory: Path, target: Record, name: str, folder: Path) -> Path:
    """The main file of the target's catalog, which this llmgw finds nothing wrong with. Raises LlmgwErrors."""
    main = unpack(directory, target.catalog.digest, folder)
    try:
        load_catalog(main)
    except LlmgwErrors as errors:
        why = (
            f"the catalog of generation {target.generation} was applied before, but this llmgw refuses it; nothing was"
            " touched"
        )
        fix = (
            f"roll back with the llmgw that applied it; or write it out by `llmgw history {name} --write-catalog"
            " DIR`, mend it, and apply it with --catalog"
        )
        head = LlmgwError("rollback-refused", why, fix=fix)
        raise LlmgwErrors([head, *(_placed(error, folder) for error in errors.errors)]) from errors
    return main


def _placed(error: LlmgwError, folder: Path) -> LlmgwError:
    """The error with its place in the catalog that was kept, and not in a folder that is about to go."""
    where = error.where
    if where is None:
        return error
    path = Path(where.path)
    inside = path.relative_to(folder) if path.is_relative_to(folder) else path
    why = error.why.replace(f"{folder}/", "")
    return LlmgwError(error.code, why, where=Where(str(inside), where.line, where.column), fix=error.fix)


def _named(target: Record) -> str:
    return f"the catalog of generation {target.generation}, applied {in_words(target.began)} by {target.by}"


def _tell_of_git(catalog: Path, rolled_back: str, name: str, *, done: bool, check: bool) -> None:
    """Says what the next apply would do, unless the catalog says the same as the one that was rolled back to."""
    try:
        if load_catalog(catalog).digest == rolled_back:
            return
    except LlmgwError:
        pass  # a catalog that cannot be read says nothing, and the next apply tells why
    if check:
        line = f"The catalog {catalog} says otherwise: after a rollback, the next apply would go forward again."
    elif done:
        line = f"The catalog {catalog} still says otherwise: the next apply goes forward again."
    else:
        line = f"The catalog {catalog} says otherwise: the next `llmgw apply` goes by that, and forward."
    write = f"llmgw history {name} --write-catalog DIR"
    fix = f"    fix: `git revert` the commit that changed it; what it was then is written by `{write}`"
    for one in (line, fix):
        print(printable(one), file=sys.stderr)
