# SPDX-License-Identifier: Apache-2.0
"""`llmgw reconcile`: keeps the fleet as the catalog says, round after round, within a budget (D18)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llmgw.apply.inputs import find_paths
from llmgw.apply.moment import refuse_kept
from llmgw.cli import exits, options
from llmgw.cli.reconcile_run import address, alone, checked, duration, ending, last_word, rounds, speaker, teller

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def reconcile(
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    catalog: options.Catalog = None,
    facts: options.Facts = None,
    history: options.History = None,
    *,
    interval: Annotated[
        str, typer.Option(metavar="DURATION", help="From the beginning of a round to that of the next.")
    ] = "60s",
    once: Annotated[bool, typer.Option("--once", help="One round, for a timer.")] = False,
    only_news: Annotated[
        bool, typer.Option("--only-news", help="With --once: say only what the round before did not say.")
    ] = False,
    max_actions: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Mend only where it takes no more actions than this within any hour; 0: report only.",
        ),
    ] = 10,
    move_lost: Annotated[
        bool, typer.Option("--move-lost", help="Also move replicas away from nodes that count as lost.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing, say what would be done.")] = False,
    metrics_file: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Write metrics there after every round, for a textfile collector.", show_default=False
        ),
    ] = None,
    metrics_listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve metrics there.", show_default=False)
    ] = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="With --once: end with 2 when changes are left.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for every line of text.")] = False,
) -> int:
    """Keep the fleet as the catalog says: read facts, say what has drifted, mend it.

    A round mends only what is small: never when many nodes are lost at once, when nothing would be left that serves,
    when a rollout is refused, or when it takes more actions than --max-actions in an hour. What it does not do it says,
    and `llmgw apply` does it. The catalog is read anew in every round; to pull it from git is a timer's business.
    """
    if once and metrics_listen is not None:
        raise typer.BadParameter("--metrics-listen needs a process that stays: use --metrics-file with --once")
    if not once and (only_news or detailed_exitcode):
        raise typer.BadParameter("--only-news and --detailed-exitcode go with --once")
    seconds = duration(interval)
    listen = None if metrics_listen is None else address(metrics_listen)
    paths = find_paths(inventory, catalog, facts)
    refuse_kept(paths.facts)
    checked(metrics_file)
    with alone(paths.facts), ending() as end:
        from llmgw.apply.history import directory_of
        from llmgw.apply.reconcile import Brakes
        from llmgw.apply.reconcile_hands import FleetHands
        from llmgw.apply.reconcile_loop import Loop

        hands = FleetHands(paths, directory_of(paths.facts, history), end.asked.is_set)
        say = speaker(as_json=as_json, timed=not once)
        loop = Loop(paths.facts, hands, Brakes(max_actions, move_lost), say, dry_run=dry_run)
        if not only_news:
            loop.forget_what_was_said()
        told = teller(loop.collector, metrics_file, listen)
        if not once:
            return rounds(loop, told, end, say, seconds)
        ended = loop.round()
        told()
        if not only_news and not as_json:
            print(last_word(ended.outcome))
        return exits.OK if ended.status == exits.CHANGES and not detailed_exitcode else ended.status
