# SPDX-License-Identifier: Apache-2.0
"""`llmgw nodes`: the fleet or some of its nodes, from stored facts. Touches no host (V1)."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from dataclasses import asdict
from typing import Annotated, Any

import typer

from llmgw.apply.inputs import find_paths
from llmgw.cli import exits, options
from llmgw.cli.facts_text import node_lines
from llmgw.cli.nodes_text import Sort, fleet_lines
from llmgw.cli.style import printable
from llmgw.errors import LlmgwError
from llmgw.fleet import store
from llmgw.fleet.document import fleet_document
from llmgw.fleet.inventory import read_inventory
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.fleet.usage import by_class
from llmgw.model.node import FleetSnapshot

app = typer.Typer(add_completion=False, rich_markup_mode=None)
NODES_FORMAT = 1
_NAMED = 10


@app.command()
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
    as_json: options.AsJson = False,
) -> int:
    """Show the nodes: state, devices by class, memory, disk, fabrics, NVLink domain, findings.

    MEM and DISK are what is free of what there is. `-` is unknown; what was read too long ago is unknown too.
    Uses stored facts: `llmgw facts refresh` renews them.
    """
    paths = find_paths(inventory, None, facts)
    hosts = read_inventory(paths.inventory)
    stored = {host.name: store.load(paths.facts, host.name) for host in hosts}
    for one in stored.values():
        if one.error is not None:
            print(printable(one.error), file=sys.stderr)
    fleet = build_snapshot(hosts, stored, View(time.time(), declared_lost=frozenset(lost or ())))
    wanted = list(dict.fromkeys(node or ()))
    _refuse_unknown(fleet, [*wanted, *(lost or ())])
    if as_json:
        print(json.dumps(_document(fleet, wanted), indent=2))
    elif wanted:
        print(printable("\n\n".join(_in_full(fleet, name) for name in wanted)))
    else:
        print(printable("\n".join(fleet_lines(fleet, sort, _width()))))
    return exits.OK


def _refuse_unknown(fleet: FleetSnapshot, names: list[str]) -> None:
    unknown = next((name for name in names if fleet.node(name) is None), None)
    if unknown is None:
        return
    known = [node.name for node in fleet.nodes]
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    raise LlmgwError(
        "unknown-host",
        f"the inventory has no node {unknown}",
        fix=f"it has {', '.join(known[:_NAMED]) or 'none: nodes are the hosts of its group fleet'}{more}",
    )


def _in_full(fleet: FleetSnapshot, name: str) -> str:
    node = fleet.node(name)
    return "\n".join(node_lines(name, node.facts if node else None, node, fleet.taken_at))


def _document(fleet: FleetSnapshot, wanted: list[str]) -> dict[str, Any]:
    """The fleet as gateways get it, the numbers by class, and of nodes only those that were asked for."""
    document = fleet_document(fleet)
    if wanted:
        document["nodes"] = [entry for entry in document["nodes"] if entry["name"] in wanted]
    classes = {name: asdict(usage) for name, usage in by_class(fleet.nodes).items()}
    return document | {"format_version": NODES_FORMAT, "classes": classes}


def _width() -> int | None:
    """Columns of the terminal; None where a file or a program reads, which wants one line a node."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return None
    return shutil.get_terminal_size().columns
