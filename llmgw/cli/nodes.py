# SPDX-License-Identifier: Apache-2.0
"""`llmgw nodes`: the fleet or some of its nodes, from stored facts (V1); and the commands that mark nodes, which alone
touch hosts.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Container
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from llmgw.apply.inputs import find_paths
from llmgw.apply.moment import looked_at
from llmgw.cli import exits, marks, moment, options, unjudged
from llmgw.cli.facts_text import node_lines
from llmgw.cli.nodes_text import Sort, fleet_lines, has_problems
from llmgw.cli.style import page, printable
from llmgw.fleet import store
from llmgw.fleet.document import fleet_document
from llmgw.fleet.inventory import read_inventory
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.fleet.unread import unread_problems
from llmgw.fleet.usage import Usage, by_class
from llmgw.model.node import FleetSnapshot
from llmgw.whatif.near import node_of

NODES_FORMAT = 1
_TABLE = "list"


class _TableUnlessNamed(TyperGroup):
    """The table, unless the first word is one of the commands that mark nodes. A node that is called like one is shown
    by `llmgw nodes -- cordon`.
    """

    def make_context(  # type: ignore[override]
        self, info_name: str | None, args: list[str], parent: typer.Context | None = None, **extra: Any
    ) -> Any:
        first = args[0] if args else None
        completing = not args and extra.get("resilient_parsing", False)
        if completing or (first in self.commands and first != _TABLE):
            return super().make_context(info_name, args, parent, **extra)
        return self.commands[_TABLE].make_context(info_name, args, parent, **extra)


app = typer.Typer(
    cls=_TableUnlessNamed,
    help="Show the nodes, or take nodes and devices out and back in.",
    add_completion=False,
    rich_markup_mode=None,
)
for _command in (marks.cordon, marks.uncordon, marks.drain, marks.undrain, marks.clear):
    app.command()(_command)


@app.command(
    _TABLE,
    hidden=True,
    epilog="To take nodes out and back in: llmgw nodes cordon, uncordon, drain, undrain; quarantined devices: llmgw "
    "nodes clear. Each has its own --help.",
)
def nodes(
    node: Annotated[
        list[str] | None, typer.Argument(metavar="NODE", help="These nodes in full; without any a table of all.")
    ] = None,
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    facts: options.Facts = None,
    lost: options.Lost = None,
    *,
    sort: Annotated[
        Sort, typer.Option("--sort", help="Order of the table; the worst, oldest or most first.")
    ] = Sort.NAME,
    problems: Annotated[
        bool,
        typer.Option("--problems", help="Only nodes that are not ok, or have old facts or a finding of block or warn."),
    ] = False,
    as_json: options.AsJson = False,
) -> int:
    """Show the nodes: state, devices by class, memory, disk, fabrics, NVLink domain, findings.

    MEM FREE and DISK FREE are free/total. `-` is unknown; what was read too long ago is unknown too.
    Uses stored facts: `llmgw facts refresh` renews them.
    """
    if node and problems:
        raise typer.BadParameter("name nodes or give --problems, not both")
    paths = find_paths(inventory, None, facts)
    hosts = read_inventory(paths.inventory)
    stored = {host.name: store.load(paths.facts, host.name) for host in hosts}
    for problem in (*unread_problems(hosts), *(one.error for one in stored.values() if one.error is not None)):
        print(printable(problem), file=sys.stderr)
    moment.tell(paths.facts)
    view = View(looked_at(paths.facts, time.time()), declared_lost=frozenset(lost or ()))
    fleet = build_snapshot(hosts, stored, view, unjudged.tell)
    wanted = list(dict.fromkeys(node or ()))
    _refuse_unknown(fleet, [*wanted, *(lost or ())])
    if as_json:
        asked = [one for one in fleet.nodes if not wanted or one.name in wanted]
        names = {one.name for one in asked if has_problems(one) or not problems}
        print(json.dumps(_document(fleet, names), indent=2))
    elif wanted:
        print("\n\n".join(_in_full(fleet, name) for name in wanted))
    else:
        print(page(fleet_lines(fleet, sort, _width(), problems=problems)))
    return exits.OK


def _refuse_unknown(fleet: FleetSnapshot, names: list[str]) -> None:
    command = next((name for name in names if name in marks.COMMANDS and fleet.node(name) is None), None)
    if command is not None:
        raise typer.BadParameter(f"`{command}` comes first: llmgw nodes {command} NODE..., and options after it")
    for name in names:
        node_of(fleet, name)


def _in_full(fleet: FleetSnapshot, name: str) -> str:
    node = fleet.node(name)
    return page(node_lines(name, node.facts if node else None, node, fleet.taken_at, fleet.domains))


def _document(fleet: FleetSnapshot, names: Container[str]) -> dict[str, Any]:
    """The fleet as gateways get it and more of each node, the numbers by class, and of nodes only the named ones."""
    document = fleet_document(fleet, full=True)
    document["nodes"] = [entry for entry in document["nodes"] if entry["name"] in names]
    classes = {name: _numbers(usage) for name, usage in by_class(fleet.nodes).items()}
    return document | {"format_version": NODES_FORMAT, "classes": classes}


def _numbers(usage: Usage) -> dict[str, int | None]:
    """Null for what is not known of every node, and beside it what is known."""
    return {
        "total": usage.total,
        "held": None if usage.maybe_held else usage.held,
        "free": None if usage.maybe_free else usage.free,
        "out": usage.out,
        "held_at_least": usage.held,
        "free_at_least": usage.free,
    }


def _width() -> int | None:
    """Columns of the terminal; None where a file or a program reads, which wants one line a node."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return None
    return shutil.get_terminal_size().columns
