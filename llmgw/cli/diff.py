# SPDX-License-Identifier: Apache-2.0
"""`llmgw diff`: unit by unit, what an apply would change in the files, and what has drifted (R2)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import typer

from llmgw.apply.inputs import Inputs, find_paths, read_inputs
from llmgw.apply.unitdiff import UnitDiff, unit_diffs
from llmgw.cli import exits, moment, options
from llmgw.cli.cells import plural, some
from llmgw.cli.plan_shown import age_line
from llmgw.cli.style import coloured, printable
from llmgw.decide import decide
from llmgw.model.node import FleetSnapshot, NodeState
from llmgw.model.plan import Drift, Plan
from llmgw.nodekit import unitchange
from llmgw.plan.drift_text import drift_lines, remedy
from llmgw.plan.facts_age import oldest_facts
from llmgw.whatif.near import no_such, node_of

DIFF_FORMAT = 2
_NAMED = 8
_SIGNS = {unitchange.CREATED: "+", unitchange.REMOVED: "-"}
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@dataclass(frozen=True, slots=True)
class Narrowed:
    """What is looked at: units and drift of these nodes and services; None: of all."""

    nodes: frozenset[str] | None = None
    services: frozenset[str] | None = None

    def has(self, node: str, replica: str | None) -> bool:
        """Whether something on a node, of a replica or of none, is looked at."""
        service = (replica or "").rpartition("/")[0]
        return (self.nodes is None or node in self.nodes) and (self.services is None or service in self.services)


@app.command()
def diff(
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    catalog: options.Catalog = None,
    facts: options.Facts = None,
    lost: options.Lost = None,
    *,
    node: Annotated[
        list[str] | None,
        typer.Option("--node", metavar="NODE", help="Only what is on this node; may be given several times."),
    ] = None,
    service: Annotated[
        list[str] | None,
        typer.Option("--service", metavar="SERVICE", help="Only what is of this service; may be given several times."),
    ] = None,
    as_json: options.AsJson = False,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="End with 2 when any unit differs or anything has drifted.")
    ] = False,
) -> int:
    """Show what would change, unit by unit, and what is not as it was last applied.

    Compares the nodes, as last seen, with the catalog and with what units say of themselves; touches no host.
    """
    paths = find_paths(inventory, catalog, facts)
    moment.tell(paths.facts)
    inputs = read_inputs(paths, time.time(), lost or ())
    for problem in inputs.problems:
        print(printable(problem), file=sys.stderr)
    narrowed = _narrowed(inputs, node, service)
    decision = decide(inputs.catalog, inputs.fleet)
    found = [one for one in unit_diffs(decision, inputs.fleet) if narrowed.has(one.node, one.replica)]
    drift = [one for one in decision.plan.drift if narrowed.has(one.node, one.replica)]
    seen = tuple(one for one in inputs.fleet.nodes if narrowed.nodes is None or one.name in narrowed.nodes)
    fleet = replace(inputs.fleet, nodes=seen)
    if as_json:
        print(json.dumps(_document(found, drift, decision.plan, fleet), indent=2))
    else:
        lines = [*_unit_lines(found), *_drift_lines(drift, decision.plan), *_last_words(fleet, differs=bool(found))]
        print("\n".join(coloured(lines, sys.stdout)))
    return exits.CHANGES if detailed_exitcode and (found or drift) else exits.OK


def _narrowed(inputs: Inputs, nodes: Sequence[str] | None, services: Sequence[str] | None) -> Narrowed:
    """What is asked for. Raises LlmgwError for a node that the inventory has not, and for a service that neither the
    catalog has nor any unit.
    """
    for name in nodes or ():
        node_of(inputs.fleet, name)
    known: set[str] = {service.name for service in inputs.catalog.services}
    known |= {
        (unit.replica or "").rpartition("/")[0]
        for node in inputs.fleet.nodes
        for unit in ((node.facts.units or ()) if node.facts else ())
    } - {""}
    for name in services or ():
        if name not in known:
            why = f"neither the catalog nor any node has a service {name}"
            raise no_such("unknown-service", why, name, known, nothing="there are no services")
    return Narrowed(None if nodes is None else frozenset(nodes), None if services is None else frozenset(services))


def _document(found: Sequence[UnitDiff], drift: Sequence[Drift], plan: Plan, fleet: FleetSnapshot) -> dict[str, object]:
    oldest = oldest_facts(fleet)
    return {
        "format_version": DIFF_FORMAT,
        "units": [asdict(one) for one in found],
        "drift": [asdict(one) | {"remedy": None if one.mended else remedy(one, plan)} for one in drift],
        "unknown": _unknown(fleet),
        "oldest_facts_s": None if oldest is None else oldest[0],
    }


def _unit_lines(found: Sequence[UnitDiff]) -> Iterator[str]:
    for one in found:
        drift = f" (drift: {', '.join(one.drift)})" if one.drift else ""
        later = ", once its rollout is possible" if one.withheld else ""
        sign = _SIGNS.get(one.change, "~")
        yield f"{sign} {one.node}: {one.unit} would be {one.change}{later}{drift}"
        if one.drop_in is not None:
            yield f"    a drop-in of it ({one.drop_in}) changes it and would be deleted"
        yield from one.diff
        yield ""


def _drift_lines(drift: Sequence[Drift], plan: Plan) -> Iterator[str]:
    if not drift:
        return
    mended = sum(one.mended for one in drift)
    puts = "it" if mended == len(drift) == 1 else "all of it" if mended == len(drift) else f"{mended} of it"
    right = f"an apply puts {puts} right" if mended else "an apply puts nothing of it right"
    are = "thing is not as it was" if len(drift) == 1 else "things are not as they were"
    yield f"Drift: {len(drift)} {are} last applied; {right}."
    yield from drift_lines(drift, plan)
    yield ""


def _last_words(fleet: FleetSnapshot, *, differs: bool) -> Iterator[str]:
    """That no unit differs, where it is so, of which nodes nobody can tell or not now, and how old the facts are."""
    unknown = _unknown(fleet)
    if not differs and (not unknown or len(unknown) < len(fleet.nodes)):
        yield "No unit differs on the nodes that are known." if unknown else "No unit differs."
    if unknown:
        those = f"{plural(len(unknown), 'node')} ({some(unknown, _NAMED)})"
        yield f"Nothing is known of the units of {those}: `llmgw facts refresh` reads them."
    silent = [node.name for node in fleet.nodes if node.state is NodeState.UNREACHABLE and node.name not in unknown]
    if silent:
        does = "does not answer: it is" if len(silent) == 1 else "do not answer: they are"
        yield f"{some(silent, _NAMED)} {does} shown as last seen."
    age = age_line(fleet)
    if age is not None:
        yield age


def _unknown(fleet: FleetSnapshot) -> list[str]:
    """The nodes whose units nobody knows."""
    return [node.name for node in fleet.nodes if node.facts is None or node.facts.units is None]
