# SPDX-License-Identifier: Apache-2.0
"""`llmgw plan`: what an apply would change and why, from the facts stored last. Touches nothing and no host."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llmgw.apply.inputs import Inputs, find_paths, read_inputs
from llmgw.cli import exits, moment, options
from llmgw.cli import whatif_options as whatif
from llmgw.cli.plan_asked import Asked, refuse_combinations
from llmgw.cli.plan_shown import Shown, show
from llmgw.cli.style import coloured, printable
from llmgw.decide import Options, bounded, decide
from llmgw.model.node import FleetSnapshot
from llmgw.model.plan import Plan
from llmgw.model.replica import Catalog
from llmgw.plan.facts_age import old_facts_line

if TYPE_CHECKING:
    from llmgw.cli.whatif import Question

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def plan(
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    catalog: options.Catalog = None,
    facts: options.Facts = None,
    lost: options.Lost = None,
    *,
    with_nodes: whatif.WithNodes = None,
    without_node: whatif.WithoutNode = None,
    drain: whatif.Drain = None,
    cordon: whatif.Cordon = None,
    uncordon: whatif.Uncordon = None,
    scale: whatif.Scale = None,
    smallest: whatif.SmallestKind = None,
    why: Annotated[
        str | None,
        typer.Option(
            "--why",
            metavar="SERVICE[/N]",
            help="Why a service or one of its replicas is where it is, or nowhere, and what would change that.",
            show_default=False,
        ),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node", metavar="NODE", help="With --why: what this node has to say; may be given several times."
        ),
    ] = None,
    failures: Annotated[
        bool,
        typer.Option(
            "--failures",
            help="Take every node, rack and NVLink domain away in turn: which service would be short of replicas.",
        ),
    ] = False,
    failure_domain: Annotated[
        list[str] | None,
        typer.Option(
            "--failure-domain",
            metavar="LABEL",
            help="With --failures: nodes with one value of this label fail together too; may be given several times.",
        ),
    ] = None,
    allow_mass_loss: options.AllowMassLoss = False,
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="Show unchanged replicas too, and what services, nodes and classes of devices have then."
        ),
    ] = False,
    waves: Annotated[
        bool, typer.Option("--waves", help="Show the waves in which an apply would go, and how each is put back.")
    ] = False,
    as_json: options.AsJson = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the plan as a comment of a pull request, in GitHub's Markdown.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Save the plan too, to be reviewed and then carried out by `llmgw apply FILE` as it is.",
            show_default=False,
        ),
    ] = None,
    detailed_exitcode: Annotated[
        bool,
        typer.Option(
            "--detailed-exitcode",
            help="End with 2 when there is something to do; 3, for what cannot be placed or rolled out, needs no"
            " option.",
        ),
    ] = False,
) -> int:
    """Show what an apply would change and why. Uses stored facts: `llmgw facts refresh` renews them.

    What if is answered from the same facts: suppositions may be given together and several times, and nothing is
    changed by them.
    """
    given = whatif.Given(with_nodes, without_node, drain, cordon, uncordon, scale, smallest)
    refuse_combinations(Asked(given, why, node, failures, failure_domain, as_json, markdown, out))
    question = _read(given)
    paths = find_paths(inventory, catalog, facts)
    moment.tell(paths.facts)
    inputs = read_inputs(paths, time.time(), lost or ())
    for problem in inputs.problems:
        print(printable(problem), file=sys.stderr)
    chosen = Options(allow_mass_loss=allow_mass_loss, inputs=inputs.digests if as_json or out else None)
    if why is not None:
        return _why(inputs, question, (why, node), chosen, as_json=as_json)
    if failures:
        return _failures(inputs, question, failure_domain or [], chosen, as_json=as_json)
    shown = Shown(every, waves, as_json, markdown)
    if question is not None:
        decided = _supposed_plan(inputs, question, chosen, shown)
    else:
        decision = decide(inputs.catalog, inputs.fleet, chosen)
        decided = decision.plan
        if out is not None:
            _save(out, decided, inputs, lost or (), allow_mass_loss=allow_mass_loss)
        show(decision, inputs, shown)
    return _status(decided, detailed=detailed_exitcode)


def _status(decided: Plan, *, detailed: bool) -> int:
    if decided.unplaced or any(one.refused for one in decided.rollouts):
        return exits.UNPLACED
    to_do = decided.changes or any(one.mended for one in decided.drift)
    return exits.CHANGES if detailed and to_do else exits.OK


def _save(out: Path, decided: Plan, inputs: Inputs, lost: Sequence[str], *, allow_mass_loss: bool) -> None:
    """Raises LlmgwError where the file cannot be written."""
    from llmgw.apply.saved import SavedOptions
    from llmgw.cli.saved import save

    save(out, decided, inputs.digests, SavedOptions(tuple(lost), allow_mass_loss))


def _supposed_plan(inputs: Inputs, question: Question, chosen: Options, shown: Shown) -> Plan:
    """The plan as supposed, shown with what differs from the present one."""
    from llmgw.cli import whatif

    plan = whatif.answer(inputs, question, chosen, whatif.Shown(shown.every, shown.waves, shown.as_json))
    old = old_facts_line(inputs.fleet)
    if old is not None and not shown.as_json:
        print(old)
    return plan


def _read(given: whatif.Given) -> Question | None:
    """What is supposed; None where nothing is. Raises BadParameter."""
    if not given.any:
        return None
    from llmgw.cli.whatif import read

    return read(given)


def _why(
    inputs: Inputs, question: Question | None, about: tuple[str, list[str] | None], chosen: Options, *, as_json: bool
) -> int:
    """Why, in the fleet as it is supposed."""
    from llmgw.cli.why import why

    return why(*_supposed(inputs, question, as_json=as_json), *about, chosen, as_json=as_json)


def _failures(inputs: Inputs, question: Question | None, labels: list[str], chosen: Options, *, as_json: bool) -> int:
    """What single losses would mean for the fleet as it is supposed, once the plan is carried out."""
    from llmgw.placement.assign import place
    from llmgw.placement.failures import failures
    from llmgw.plan.failures_text import failure_lines, failures_document

    catalog, fleet = _supposed(inputs, question, as_json=as_json)
    _refuse_unknown_labels(fleet, labels)
    outcome = place(catalog, bounded(fleet, chosen)[0], reasons=False)
    found, unplaced = failures(outcome, labels), [one.replica for one in outcome.placement.unplaced]
    if as_json:
        print(json.dumps(failures_document(found, unplaced), indent=2))
    else:
        print("\n".join(coloured(failure_lines(found, unplaced), sys.stdout)))
    return exits.UNPLACED if unplaced else exits.OK


def _refuse_unknown_labels(fleet: FleetSnapshot, labels: list[str]) -> None:
    """Raises LlmgwError `unknown-label` for a label that no node has: nothing would be taken away for it."""
    from llmgw.whatif.near import no_such

    known = {name for node in fleet.nodes for name in node.labels}
    for label in labels:
        if label not in known:
            nothing = "give nodes labels by `llmgw_labels` of the inventory"
            raise no_such("unknown-label", f"no node has the label {label}", label, known, nothing=nothing)


def _supposed(inputs: Inputs, question: Question | None, *, as_json: bool) -> tuple[Catalog, FleetSnapshot]:
    if question is None:
        return inputs.catalog, inputs.fleet
    from llmgw.cli.whatif import supposed_of

    return supposed_of(inputs, question, as_json=as_json)
