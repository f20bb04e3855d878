# SPDX-License-Identifier: Apache-2.0
"""`llmgw nodes cordon`, `uncordon`, `drain`, `undrain`, `clear`: take nodes and devices out and back in by marks on the
nodes (R11). They move nothing: the next plan goes by the marks.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from llmgw.cli import exits, options

if TYPE_CHECKING:
    from llmgw.apply.inputs import Paths
    from llmgw.apply.marks import Answers, Wanted
    from llmgw.fleet.hosts import Host
    from llmgw.model.node import FleetSnapshot

MARKS_FORMAT = 1
COMMANDS = ("cordon", "uncordon", "drain", "undrain", "clear")
Nodes = Annotated[list[str], typer.Argument(metavar="NODE", help="Hosts of the inventory's group fleet.")]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why, in one line: it is shown with the node.")
]


def cordon(
    node: Nodes,
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    facts: options.Facts = None,
    reason: Reason = None,
    *,
    as_json: options.AsJson = False,
) -> int:
    """Keep new replicas away from nodes; what runs there stays.

    The mark is kept on the node itself and holds for every controller. `llmgw_cordoned: true` in the inventory does the
    same; a node is cordoned if either says so.
    """
    return _marked("cordon", node, (inventory, facts), {"cordon": True, "reason": reason}, as_json=as_json)


def uncordon(
    node: Nodes,
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    facts: options.Facts = None,
    *,
    as_json: options.AsJson = False,
) -> int:
    """Take away the mark that `llmgw nodes cordon` made."""
    return _marked("uncordon", node, (inventory, facts), {"cordon": False}, as_json=as_json)


def drain(
    node: Nodes,
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    facts: options.Facts = None,
    reason: Reason = None,
    *,
    as_json: options.AsJson = False,
) -> int:
    """Mark nodes so that the next apply moves what runs there, and nothing new comes.

    `llmgw plan` shows what moves and what would find no place. `llmgw_drained: true` in the inventory does the same; a
    node is drained if either says so.
    """
    return _marked("drain", node, (inventory, facts), {"drain": True, "reason": reason}, as_json=as_json)


def undrain(
    node: Nodes,
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    facts: options.Facts = None,
    *,
    as_json: options.AsJson = False,
) -> int:
    """Take away the mark that `llmgw nodes drain` made."""
    return _marked("undrain", node, (inventory, facts), {"drain": False}, as_json=as_json)


def clear(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Host of the inventory's group fleet.")],
    device: Annotated[
        list[str] | None,
        typer.Argument(metavar="DEVICE", help="As `llmgw nodes NODE` shows them: 2, 2/mig1, or a UUID."),
    ] = None,
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    facts: options.Facts = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All devices of the node that are quarantined.")] = False,
    as_json: options.AsJson = False,
) -> int:
    """Use quarantined devices of a node again, after they were mended.

    What is still wrong with a device keeps it out as before, and the next apply quarantines it again.
    """
    from llmgw.apply.inputs import find_paths
    from llmgw.cli.marks_devices import named_devices
    from llmgw.fleet import store

    if bool(device) == every:
        raise typer.BadParameter("name devices (`llmgw nodes clear n3 2`), or give --all")
    paths = find_paths(inventory, None, facts)
    _refuse_unknown(paths, [node])
    wanted = ["all"] if every else named_devices(node, store.load(paths.facts, node).facts, device or [])
    parts = ("state", "gpus", "xids")
    return _carried_out("clear", paths, {node: {"clear": wanted}}, parts, as_json=as_json)


def _marked(
    verb: str, nodes: list[str], where: tuple[options.Inventory, options.Facts], wanted: Wanted, *, as_json: bool
) -> int:
    from llmgw.apply.inputs import find_paths

    paths = find_paths(where[0], None, where[1])
    names = list(dict.fromkeys(nodes))
    _refuse_unknown(paths, names)
    return _carried_out(verb, paths, dict.fromkeys(names, wanted), ("state",), as_json=as_json)


def _refuse_unknown(paths: Paths, names: list[str]) -> None:
    """Raises LlmgwError for a name that is none of a node, and where facts are kept for one moment."""
    from llmgw.apply.moment import refuse_kept
    from llmgw.fleet.inventory import read_inventory
    from llmgw.whatif.near import no_such

    refuse_kept(paths.facts)
    known = [host.name for host in read_inventory(paths.inventory) if host.node]
    for name in names:
        if name not in known:
            why = f"the inventory has no node {name or 'with an empty name'}"
            raise no_such("unknown-host", why, name, known, nothing="nodes are the hosts of the group fleet")


def _carried_out(verb: str, paths: Paths, wanted: dict[str, Wanted], parts: tuple[str, ...], *, as_json: bool) -> int:
    from llmgw.apply.marks import mark
    from llmgw.cli.marks_text import Told, document, told
    from llmgw.cli.style import printable

    answers = mark(paths, wanted, parts)
    hosts, fleet = _seen(paths)
    said: Told = told(verb, answers, fleet, hosts, paths.inventory)
    for line in said.errors:
        print(printable(line), file=sys.stderr)
    status = _status(answers)
    if as_json:
        print(json.dumps({"format_version": MARKS_FORMAT, "status": status, **document(answers, fleet, list(wanted))}))
    else:
        for line in said.lines:
            print(printable(line))
    if status == exits.INTERRUPTED:
        print("llmgw: interrupted; marks that were made stay", file=sys.stderr)
    return status


def _seen(paths: Paths) -> tuple[tuple[Host, ...], FleetSnapshot]:
    from llmgw.cli import unjudged
    from llmgw.fleet import store
    from llmgw.fleet.inventory import read_inventory
    from llmgw.fleet.snapshot import View, build_snapshot

    hosts = read_inventory(paths.inventory)
    stored = {host.name: store.load(paths.facts, host.name) for host in hosts}
    return hosts, build_snapshot(hosts, stored, View(time.time()), unjudged.tell)


def _status(answers: Answers) -> int:
    if answers.status == exits.INTERRUPTED:
        return exits.INTERRUPTED
    return exits.ERROR if answers.status or answers.failed or answers.unreached or answers.errors else exits.OK
