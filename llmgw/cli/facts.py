# SPDX-License-Identifier: Apache-2.0
"""`llmgw facts`: what nodes are, read here, read from the fleet, or as stored (D17)."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from llmgw.apply.events import Progress, unexplained
from llmgw.apply.inputs import find_paths
from llmgw.apply.runner import Run, run_playbook
from llmgw.cli import exits, options
from llmgw.cli.facts_text import node_lines, table_lines
from llmgw.cli.style import printable
from llmgw.errors import LlmgwError
from llmgw.fleet import store
from llmgw.fleet.inventory import read_inventory
from llmgw.fleet.snapshot import View, build_snapshot

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="What nodes are: hardware, engines, weights, units.",
)
FACTS_FORMAT = 1


@app.command()
def local(
    model_dir: Annotated[
        list[Path] | None,
        typer.Option(
            "--model-dir", metavar="DIR", help="Directory to look for weights in; may be given several times."
        ),
    ] = None,
    scope: Annotated[str, typer.Option(metavar="SCOPE", help="systemd manager: system or user.")] = "system",
    *,
    as_json: options.AsJson = False,
) -> int:
    """Print what the scheduler would see on this machine."""
    from llmgw.nodekit import collect_here

    facts = collect_here(scope=scope, model_dirs=None if model_dir is None else [str(path) for path in model_dir])
    if as_json:
        print(json.dumps({"format_version": FACTS_FORMAT, **asdict(facts)}, indent=2, sort_keys=True))
    else:
        print(printable("\n".join(node_lines("this machine", facts))))
    return exits.OK


@app.command()
def refresh(
    inventory: options.Inventory = options.DEFAULT_INVENTORY, facts: options.Facts = None, limit: options.Limit = None
) -> int:
    """Read every host of the fleet again and store what it answers."""
    paths = find_paths(inventory, None, facts)
    progress = Progress()

    def show(event: dict[str, object]) -> None:
        for line in progress.feed(event):
            print(printable(line), file=sys.stderr, flush=True)

    status = run_playbook(Run("llmgw.fleet.discover", paths, limit=limit), show)
    for error in (*progress.errors, *unexplained(progress, status)):
        print(printable(error), file=sys.stderr)
    hosts = read_inventory(paths.inventory)
    print(f"{len(progress.answered)} of {len(hosts)} hosts answered; facts are in {paths.facts}")
    if status == exits.INTERRUPTED:
        return exits.INTERRUPTED
    return exits.ERROR if status or (hosts and not progress.answered) else exits.OK


@app.command()
def show(
    node: Annotated[
        str | None, typer.Argument(metavar="NODE", help="One node in full; without it a table of all.")
    ] = None,
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    facts: options.Facts = None,
    *,
    as_json: options.AsJson = False,
) -> int:
    """Show stored facts."""
    paths = find_paths(inventory, None, facts)
    hosts = read_inventory(paths.inventory)
    stored = {host.name: store.load(paths.facts, host.name) for host in hosts}
    for one in stored.values():
        if one.error is not None:
            print(printable(one.error), file=sys.stderr)
    if node is not None and node not in stored:
        raise LlmgwError(
            "unknown-host", f"the inventory has no host {node}", fix=f"it has {', '.join(sorted(stored)) or 'no host'}"
        )
    if as_json:
        wanted = [node] if node else sorted(stored)
        document = {name: None if stored[name].facts is None else asdict(stored[name].facts) for name in wanted}  # type: ignore[arg-type]
        print(json.dumps({"format_version": FACTS_FORMAT, "nodes": document}, indent=2, sort_keys=True))
    elif node is not None:
        known = stored[node].facts
        print(printable("\n".join(node_lines(node, known) if known else [f"{node}: no facts stored"])))
    else:
        print(printable("\n".join(table_lines(build_snapshot(hosts, stored, View(time.time()))))))
    return exits.OK
