# SPDX-License-Identifier: Apache-2.0
"""What the collection's action plugins call on the controller: keep facts, make the plan (R3).

Arguments and answers are plain JSON values, so that the plugins stay a few lines that only know Ansible.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from llmgw.apply.history_catalogs import copy_of
from llmgw.apply.history_record import record_of
from llmgw.apply.inputs import Inputs, inputs_of
from llmgw.apply.lock import facts_of_a_host
from llmgw.apply.moment import refuse_kept
from llmgw.apply.publishing import Publishing
from llmgw.apply.reasons import failure_reason, timed_out
from llmgw.apply.saved import read as read_saved
from llmgw.apply.saved import refusals
from llmgw.apply.spool import Spool
from llmgw.apply.steps import steps_of, undo_of
from llmgw.apply.who import whoami
from llmgw.catalog.load import load_catalog
from llmgw.decide import Decision, Options, decide
from llmgw.errors import LlmgwError
from llmgw.fleet import store
from llmgw.fleet.clocks import on_our_clock
from llmgw.fleet.facts import parse_facts
from llmgw.fleet.hosts import VARIABLES, Host, relevant
from llmgw.fleet.joining import joined
from llmgw.fleet.published import published
from llmgw.fleet.unread import unread
from llmgw.model.ids import EndpointId
from llmgw.model.plan import Publish
from llmgw.nodekit import contract, parts, version
from llmgw.plan.text import plan_lines, summary_line
from llmgw.plan.unseen_text import untold_note
from llmgw.routes.now import routes_now
from llmgw.routes.withheld import Taken, still_drained, withheld

__all__ = ["VARIABLES", "Path", "Request", "hosts_of", "keep_facts", "known_hardware", "make_plan", "settle", "unread"]


@dataclass(frozen=True, slots=True)
class Request:
    """What a playbook asks for: the fleet's files, its hosts with all their variables, and the run's options."""

    catalog: Path
    facts: Path
    hosts: tuple[Host, ...]
    now: float
    in_play: frozenset[str]
    lost: tuple[str, ...] = ()
    allow_mass_loss: bool = False
    saved: Path | None = None
    """A saved plan that this one must be the same as."""
    generation: int | None = None
    """Of the routes that settle publishes."""
    taken: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What the run that failed had begun to stop or to replace, as its verdict tells."""
    answered: frozenset[str] = frozenset()
    """The hosts whose facts were read after that."""


def hosts_of(groups: Mapping[str, Iterable[str]], variables: Mapping[str, Mapping[str, Any]]) -> tuple[Host, ...]:
    """The hosts of a playbook run, sorted by name."""
    nodes, gateways = set(groups.get("fleet", ())), set(groups.get("gateway", ()))
    return tuple(
        Host(name, name in nodes, name in gateways, relevant(variables[name]), unread(variables[name]))
        for name in sorted(nodes | gateways)
    )


def keep_facts(directory: Path, discovered: Mapping[str, Mapping[str, Any]], now: float) -> dict[str, Any]:
    """Store what each host's discovery answered. Returns `{"stored": [...], "missing": {host: reason}}`.

    Raises LlmgwError where facts are kept for one moment.
    """
    refuse_kept(directory)
    stored: list[str] = []
    missing: dict[str, str] = {}
    for host, answer in sorted(discovered.items()):
        reason = failure_reason(answer) if answer.get("msg") else "discovery failed without a message"
        said = answer.get("ansible_facts")
        document = said.get("llmgw") if isinstance(said, dict) else None
        if answer.get("unreachable") or timed_out(answer):
            missing[host] = reason
            try:
                with facts_of_a_host(directory):
                    store.mark_unreachable(directory, host, now, reason)
            except LlmgwError as error:
                missing[host] = f"{reason}; {error}"
        elif answer.get("failed") or document is None:
            missing[host] = reason
        else:
            try:
                # Nodes run the modules of this very collection, and nothing on a node knows its version.
                fresh = on_our_clock(replace(parse_facts(document), module_version=version()), now)
                with facts_of_a_host(directory):
                    store.save(directory, host, joined(store.load(directory, host).facts, fresh))
            except LlmgwError as error:
                missing[host] = str(error)
            else:
                stored.append(host)
    return {"stored": stored, "missing": missing}


def known_hardware(directory: Path, hosts: Iterable[str]) -> dict[str, str]:
    """Host to the hardware key of its stored facts, for hosts whose hardware they hold whole."""
    stored = {host: store.load(directory, host).facts for host in hosts}
    return {
        host: facts.hardware_key
        for host, facts in stored.items()
        if facts is not None and facts.hardware_key is not None and _holds_hardware(facts)
    }


def _holds_hardware(facts: contract.NodeFacts) -> bool:
    """Whether no part of the hardware is unknown for want of reading it, or because reading it failed."""
    failed = any(probe.name in parts.HARDWARE and not probe.ok for probe in facts.probes)
    return facts.gathered is None and not failed and facts.cpu is not None and facts.engines is not None


def make_plan(request: Request, folder: Path) -> dict[str, Any]:
    """The plan as the playbook carries it out. Texts of units and bundles lie in `folder` (see llmgw.apply.spool).

    `steps` and `undo_steps` (see llmgw.apply.steps); `undo`: {"<wave>": {service: [numbers of undo steps]}}; `of_host`
    and `undo_of_host`: by host the numbers of the steps that concern it; `touched`: every host that they concern, and
    every gateway; `catalog`: a copy of it as it was planned with; `last_generation`: above those of all its bundles;
    `at_once`: how many hosts must be at work at a time; `by`, `plan_id`: who carries this out, and what
    tells this run from every other; `record`: what the history keeps of it. Of the plan `text` (lines), `summary`,
    `unplaced`, `refused` (services that cannot be rolled out), `changes`; and `problems` of reading the inputs,
    `in_play`: the hosts of the run.

    Raises LlmgwError for what makes any plan impossible, and `saved-plan-changed` where the plan is another one than
    the saved one.
    """
    inputs, decision = _decide(request)
    plan = decision.plan
    if request.saved is not None and (reasons := refusals(read_saved(request.saved), inputs.digests, plan)):
        raise LlmgwError("saved-plan-changed", "\n".join(reasons))
    publishing = Publishing(decision, inputs.fleet, request.in_play)
    spool = Spool(folder)
    steps = spool.all_light(steps_of(decision, publishing))
    undo_steps: list[dict[str, Any]] = []
    undo: dict[str, dict[str, list[int]]] = {}
    for wave, service, step in undo_of(decision, publishing):
        undo.setdefault(wave, {}).setdefault(service, []).append(len(undo_steps))
        undo_steps.append(spool.light(step))
    of_host, undo_of_host = _by_host(steps), _by_host(undo_steps)
    by = whoami()
    publishes = sum(step["kind"] == "publish" for step in (*steps, *undo_steps))
    catalog = copy_of(request.catalog, inputs.catalog.digest, folder / "catalog") if steps else request.catalog
    return {
        "catalog": str(catalog),
        "last_generation": plan.generation + publishes,
        "steps": steps,
        "undo_steps": undo_steps,
        "undo": undo,
        "of_host": of_host,
        "undo_of_host": undo_of_host,
        "touched": sorted({*of_host, *undo_of_host, *publishing.gateways} & request.in_play) if steps else [],
        "at_once": max((step.get("at_once", 0) for step in steps), default=0),
        "by": by,
        "plan_id": secrets.token_hex(8),
        "record": record_of(decision, request.catalog, by),
        "text": plan_lines(plan),
        "summary": summary_line(plan),
        "unplaced": [one.replica for one in plan.unplaced],
        "refused": [one.service for one in plan.rollouts if one.refused],
        "changes": plan.changes,
        "problems": [str(problem) for problem in inputs.problems],
        "in_play": sorted(request.in_play),
    }


def settle(request: Request, folder: Path) -> dict[str, Any]:
    """The step that makes routes true after a failure: every gateway gets exactly what serves now. What may be about to
    end gets no new requests (see `llmgw.routes.withheld`); the next plan routes to it again, or replaces it. Where
    nobody can tell what serves, the step reaches no gateway. `lines`: what people are to know of that.
    """
    inputs, decision = _decide(request)
    publishing = Publishing(decision, inputs.fleet, request.in_play)
    begun = [
        Taken(EndpointId(name), frozenset(one["hosts"]), frozenset(one["silent"]), one["process"])
        for name, one in request.taken.items()
    ]
    draining = withheld(begun, inputs.fleet, request.answered)
    draining |= still_drained(inputs.fleet, inputs.catalog.fleet.lost_after_s)
    routes = Publish(routes_now(inputs.catalog, inputs.fleet, decision.fenced, draining))
    generation = request.generation if request.generation is not None else decision.plan.generation + 1
    step = Spool(folder).light(publishing.step(routes, generation))
    kept = sorted(one.id for route in routes.routes.routes for one in route.endpoints if one.draining)
    said = "It was to be stopped or replaced, and nobody knows how that ended. Apply again once its host answers."
    lines = [f"Kept out of rotation: {', '.join(kept)}. {said}"] if kept else []
    served = published(inputs.fleet)
    if served.untold:  # routes that lack what is not told would take away what serves
        step, lines = step | {"hosts": []}, [f"The gateways keep the routes that they have: {untold_note(served)}."]
    return {"steps": [step | {"title": "publish what serves now", "wave": 1, "waves": 1}], "lines": lines}


def _by_host(steps: Iterable[Mapping[str, Any]]) -> dict[str, list[int]]:
    """By host the numbers of the steps that concern it."""
    found: dict[str, list[int]] = {}
    for number, step in enumerate(steps):
        for host in step["hosts"]:
            found.setdefault(host, []).append(number)
    return found


def _decide(request: Request) -> tuple[Inputs, Decision]:
    refuse_kept(request.facts)
    catalog = load_catalog(request.catalog)
    inputs = inputs_of(catalog, request.hosts, request.facts, request.now, request.lost)
    names = {host.name for host in request.hosts}
    limit = None if names <= request.in_play else request.in_play
    options = Options(limit=limit, allow_mass_loss=request.allow_mass_loss, inputs=inputs.digests)
    return inputs, decide(catalog, inputs.fleet, options)
