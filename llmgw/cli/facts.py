# SPDX-License-Identifier: Apache-2.0
"""`llmgw facts`: what nodes are, read here, from a capture, from the fleet, or as stored (D16, D17)."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from llmgw.apply.events import Progress, unexplained
from llmgw.apply.inputs import find_paths
from llmgw.apply.moment import looked_at, refuse_kept
from llmgw.apply.runner import Run, run_playbook
from llmgw.cli import exits, moment, options, unjudged
from llmgw.cli.cells import plural
from llmgw.cli.facts_parse import parse
from llmgw.cli.facts_text import node_lines
from llmgw.cli.nodes_text import fleet_lines
from llmgw.cli.style import page, printable
from llmgw.errors import LlmgwError
from llmgw.fleet import store
from llmgw.fleet.inventory import read_inventory
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.fleet.unread import unread_problems
from llmgw.nodekit import CaptureError, collect_here, contract, facts_in_capture, no_directories

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="What nodes are: hardware, engines, weights, units.",
)
FACTS_FORMAT = 1
_NAMED = 10


@app.command()
def local(
    model_dir: options.ModelDirs = None,
    scope: options.Scope = None,
    capture: Annotated[
        Path | None,
        typer.Option("--capture", metavar="PATH", help="Look at a capture instead: its .tar.gz, or as a directory."),
    ] = None,
    *,
    as_json: options.AsJson = False,
) -> int:
    """Print what the scheduler would see on this machine, or on a captured one."""
    if capture is None:
        for missing in no_directories(model_dir or ()):
            print(printable(f"--model-dir {missing}: there is no such directory"), file=sys.stderr)
        name = "this machine"
        facts = collect_here(scope=options.scope(scope), model_dirs=options.words(model_dir))
    elif model_dir or scope:
        raise typer.BadParameter("a capture holds the options that it was made with: give --capture alone")
    else:
        facts = _captured(capture)
        name = f"{capture}: {_of(facts)}"
    if as_json:
        print(json.dumps({"format_version": FACTS_FORMAT, **asdict(facts)}, indent=2, sort_keys=True))
    else:
        print(page(node_lines(name, facts)))
    return exits.OK


def _captured(path: Path) -> contract.NodeFacts:
    try:
        return facts_in_capture(path)
    except CaptureError as error:
        raise LlmgwError("capture-broken", error.why, where=error.where, fix=error.fix) from error


def _of(facts: contract.NodeFacts) -> str:
    """Whose facts they are and when they were read."""
    host = (facts.system.hostname if facts.system else None) or "a host without a name"
    if facts.collected_at is None:
        return host
    return f"{host}, captured {datetime.fromtimestamp(facts.collected_at, UTC):%Y-%m-%d %H:%M:%S} UTC"


app.command()(parse)


@app.command()
def refresh(
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    facts: options.Facts = None,
    limit: options.Limit = None,
    gather: options.Gather = None,
) -> int:
    """Read every host of the fleet again and store what it answers.

    Hosts that do not answer are named on stderr, and keep the facts that are stored of them. The exit status is 0 as
    long as one host answers.
    """
    words = options.gather(gather)
    paths = find_paths(inventory, None, facts)
    refuse_kept(paths.facts)
    progress = Progress()

    def show(event: dict[str, object]) -> None:
        for line in progress.feed(event):
            print(printable(line), file=sys.stderr, flush=True)

    status = run_playbook(Run("llmgw.fleet.discover", paths, {"llmgw_gather": words}, limit=limit), show)
    for error in (*progress.errors, *unexplained(progress, status, changes=False)):
        print(printable(error), file=sys.stderr)
    hosts = read_inventory(paths.inventory)
    for problem in unread_problems(hosts):
        print(printable(problem), file=sys.stderr)
    if silent := sorted(progress.asked - progress.answered):
        print(printable(f"no answer from {_some(silent)}"), file=sys.stderr)
    print(f"{_answers(progress, len(hosts), limit)}; facts are in {paths.facts}")
    if status == exits.INTERRUPTED:
        return exits.INTERRUPTED
    return exits.ERROR if status or (hosts and not progress.answered) else exits.OK


def _answers(progress: Progress, hosts: int, limit: str | None) -> str:
    if limit and not progress.asked:
        return f"no host of the fleet matches --limit {limit}"
    if limit:
        return f"{len(progress.answered)} of {plural(len(progress.asked), 'host')} asked answered"
    return f"{len(progress.answered)} of {plural(hosts, 'host')} answered"


def _some(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


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
    for problem in (*unread_problems(hosts), *(one.error for one in stored.values() if one.error is not None)):
        print(printable(problem), file=sys.stderr)
    if node is not None and node not in stored:
        raise LlmgwError(
            "unknown-host", f"the inventory has no host {node}", fix=f"it has {', '.join(sorted(stored)) or 'no host'}"
        )
    if as_json:
        wanted = [node] if node else sorted(stored)
        document = {name: None if stored[name].facts is None else asdict(stored[name].facts) for name in wanted}  # type: ignore[arg-type]
        print(json.dumps({"format_version": FACTS_FORMAT, "nodes": document}, indent=2, sort_keys=True))
        return exits.OK
    moment.tell(paths.facts)
    fleet = build_snapshot(hosts, stored, View(looked_at(paths.facts, time.time())), unjudged.tell)
    if node is None:
        print(page(fleet_lines(fleet)))
    elif stored[node].facts is None:
        print(printable(f"{node}: no facts stored; `llmgw facts refresh` reads it"))
    else:
        print(page(node_lines(node, stored[node].facts, fleet.node(node), fleet.taken_at)))
    return exits.OK
