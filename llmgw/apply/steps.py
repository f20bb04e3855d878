# SPDX-License-Identifier: Apache-2.0
"""A plan as the flat list of steps that the playbook loops over: plain JSON, finished text, no decision left (R3).
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from llmgw.decide import Decision
from llmgw.fleet.document import fleet_document
from llmgw.model.ids import NodeName, UnitName
from llmgw.model.node import FleetSnapshot, NodeState
from llmgw.model.plan import FetchWeights, MarkDevices, Publish, StartMembers, StopMembers
from llmgw.model.route import BUNDLE_FORMAT, Bundle, RouteTable
from llmgw.model.unit import UnitFile
from llmgw.plan.codec import plan_summary
from llmgw.routes.codec import dump_bundle, routes_digest

Step = dict[str, Any]


def steps_of(decision: Decision, fleet: FleetSnapshot, in_play: frozenset[str]) -> list[Step]:
    """The steps in order. Each has `title`, `wave`, `waves`, `kind` and what its kind needs:

    `units`: `hosts` {name: {present, absent, expected, first}} for one call of replica_units a host, and `generation`;
    `fetch`: `hosts` {name: {directory, models: [{hf_id, revision}]}} for one call of weights_fetch a host;
    `marks`: `hosts` {name: [{device, code, message}]} for one call of node_marks a host;
    `publish`: `hosts` [gateway names], `bundle`, `generation`, `routes_digest`, `drain`, `drain_timeout_s`, `ready`,
    `trials` [{endpoints, answers, max_errors, timeout_s}] for the module bundle, and `blind_drain_s`,
    the seconds to wait because some gateway cannot be asked (G6b).
    `expected` is what the host holds when the steps before this one went well; `first` marks a host's first step, the
    only one that check mode can hold against it. `at_once`: how many hosts wait for one another, members of replicas
    over several nodes: all of them must be at work at a time.
    """
    plan = decision.plan
    expected = {node: dict(units) for node, units in plan.expected_units.items()}
    touched: set[str] = set()
    generation = plan.generation
    published = 0
    steps: list[Step] = []
    for number, wave in enumerate(plan.waves, 1):
        for step in wave.steps:
            common = {"title": wave.title, "wave": number, "waves": len(plan.waves)}
            if isinstance(step, Publish):
                steps.append(common | publish_step(decision, fleet, step, generation + published, in_play))
                published += 1
            elif isinstance(step, FetchWeights):
                steps.append(common | {"kind": "fetch", "hosts": _fetching(step)})
            elif isinstance(step, MarkDevices):
                steps.append(common | {"kind": "marks", "hosts": _marking(step)})
            else:
                hosts = dict(_hosts(step, expected, touched))
                steps.append(
                    common | {"kind": "units", "hosts": hosts, "generation": generation, "at_once": _at_once(step)}
                )
    return steps


def publish_step(
    decision: Decision, fleet: FleetSnapshot, step: Publish, generation: int, in_play: frozenset[str]
) -> Step:
    """The step that gives these routes to every gateway that answers and may be touched in this run."""
    gateways = [one.name for one in fleet.gateways if one.state is NodeState.OK and one.name in in_play]
    blind = bool(step.drain) and len(gateways) < len(fleet.gateways)
    return {
        "kind": "publish",
        "hosts": gateways,
        "bundle": bundle_text(decision, fleet, step.routes, generation),
        "generation": generation,
        "routes_digest": routes_digest(step.routes),
        "drain": list(step.drain),
        "drain_timeout_s": step.drain_timeout_s,
        "ready": list(step.ready),
        "trials": [asdict(trial) | {"endpoints": list(trial.endpoints)} for trial in step.trials],
        "blind_drain_s": step.drain_timeout_s if blind else 0,
    }


def bundle_text(decision: Decision, fleet: FleetSnapshot, routes: RouteTable, generation: int) -> str:
    """The bundle that gateways read, as JSON text."""
    bundle = Bundle(
        format_version=BUNDLE_FORMAT,
        generation=generation,
        routes_digest=routes_digest(routes),
        routes=routes,
        written_at=fleet.taken_at,
        fleet=fleet_document(fleet),
        plan=plan_summary(replace(decision.plan, generation=generation)),
    )
    return dump_bundle(bundle)


def _marking(step: MarkDevices) -> dict[NodeName, list[dict[str, Any]]]:
    hosts: dict[NodeName, list[dict[str, Any]]] = {}
    for one in step.devices:
        mark = {"device": one.device, "code": one.code, "message": one.message}
        hosts.setdefault(one.node, []).append(mark)
    return hosts


def _fetching(step: FetchWeights) -> dict[NodeName, dict[str, Any]]:
    hosts: dict[NodeName, dict[str, Any]] = {}
    for one in step.fetches:
        host = hosts.setdefault(one.node, {"directory": one.directory, "models": []})
        host["models"].append({"hf_id": one.hf_id, "revision": one.revision})
    return hosts


def _at_once(step: StartMembers | StopMembers) -> int:
    if not isinstance(step, StartMembers):
        return 0
    waiting = {unit.replica for unit in step.units if unit.readiness.kind == "leader"}
    return len({unit.node for unit in step.units if unit.replica in waiting})


def _hosts(
    step: StartMembers | StopMembers, expected: dict[NodeName, dict[UnitName, str]], touched: set[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    present: dict[NodeName, list[UnitFile]] = {}
    absent: dict[NodeName, list[UnitName]] = {}
    if isinstance(step, StartMembers):
        for unit in step.units:
            present.setdefault(unit.node, []).append(unit)
    else:
        for node, name in step.units:
            absent.setdefault(node, []).append(name)
    for node in sorted({*present, *absent}):
        units, names = present.get(node, []), absent.get(node, [])
        before = expected.setdefault(node, {})
        yield (
            node,
            {
                "present": [_present(unit) for unit in units],
                "absent": list(names),
                "expected": dict(before),
                "first": node not in touched,
            },
        )
        touched.add(node)
        before.update({unit.name: unit.text_digest for unit in units})
        for name in names:
            before.pop(name, None)


def _present(unit: UnitFile) -> dict[str, Any]:
    keys = ("name", "text", "process_digest", "text_digest", "stop_timeout_s", "environment_files")
    return {key: getattr(unit, key) for key in keys} | {"readiness": asdict(unit.readiness)}
