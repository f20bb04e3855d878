# SPDX-License-Identifier: Apache-2.0
"""`llmgw history`: the applies of a fleet as a table, or one of them in full. Touches no host."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from llmgw.apply.history import History, Record, directory_of, read
from llmgw.apply.history_catalogs import is_kept, unpack
from llmgw.apply.history_choice import choose
from llmgw.apply.inputs import find_paths
from llmgw.cli import exits, options
from llmgw.cli.history_text import record_lines, table_lines
from llmgw.cli.style import page, printable
from llmgw.errors import LlmgwError

HISTORY_DOCUMENT_FORMAT = 1
_SHOWN = 20
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def history(
    which: Annotated[
        str | None,
        typer.Argument(
            metavar="ID|GENERATION", help="One apply in full; without it a table of all.", show_default=False
        ),
    ] = None,
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    facts: options.Facts = None,
    *,
    where: options.History = None,
    number: Annotated[
        int, typer.Option("-n", "--number", min=0, metavar="N", help="Show so many, the newest; 0: all.")
    ] = _SHOWN,
    write_catalog: Annotated[
        Path | None,
        typer.Option(
            "--write-catalog",
            metavar="DIR",
            help="Write the catalog of that apply into this directory, new or empty.",
            show_default=False,
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """Show the applies that changed something: when, by whom, how they ended. Of each its catalog is kept.

    OUTCOME is `running`, `done`, `failed` (a step failed: its wave was put back, later ones were not begun),
    `overtaken` (another controller was quicker) or `interrupted`: begun, and its process is gone. After that the next
    apply sees what it left and goes on.
    """
    if write_catalog is not None and which is None:
        raise typer.BadParameter("--write-catalog goes with the id or generation of one apply")
    directory = directory_of(find_paths(inventory, None, facts).facts, where)
    now = time.time()
    found = read(directory, now, None if which is not None or not number else number)
    for problem in found.problems:
        print(printable(problem), file=sys.stderr)
    if which is not None:
        record = choose(found, which)
        if write_catalog is not None:
            return _write(directory, record, write_catalog)
        if not as_json and which.isdigit() and which != record.id and int(which) != record.generation:
            print(f"Generation {which} is one of those that the apply of generation {record.generation} published:\n")
        _show_one(directory, record, as_json=as_json)
    else:
        _show_all(directory, found, as_json=as_json)
    return exits.OK


def _show_all(directory: Path, found: History, *, as_json: bool) -> None:
    if as_json:
        records = [_document(directory, record) for record in found.records]
        print(json.dumps({"format_version": HISTORY_DOCUMENT_FORMAT, "applies": records}, indent=2))
    elif not found.records:
        print(printable(f"No apply that changed anything is in the history ({directory})."))
    else:
        print(page(table_lines(found.records, _width())))


def _show_one(directory: Path, record: Record, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"format_version": HISTORY_DOCUMENT_FORMAT, "apply": _document(directory, record)}, indent=2))
    else:
        print(page(record_lines(record, _width(), kept=is_kept(directory, record.catalog.digest))))


def _write(directory: Path, record: Record, target: Path) -> int:
    """Writes the catalog of an apply. Raises LlmgwError where something is there already."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        fix = "name a new or an empty directory"
        raise LlmgwError(
            "history-catalog", "there is something already, and nothing is written", where=str(target), fix=fix
        )
    main = unpack(directory, record.catalog.digest, target)
    print(printable(f"wrote the catalog of generation {record.generation}: {main}"))
    return exits.OK


def _document(directory: Path, record: Record) -> dict[str, Any]:
    document = asdict(record)
    del document["format_version"], document["process"]
    document["catalog"]["kept"] = is_kept(directory, record.catalog.digest)
    return document


def _width() -> int | None:
    """Columns of the terminal; None where the output goes elsewhere, unless COLUMNS says how wide that is."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return None
    return shutil.get_terminal_size().columns
