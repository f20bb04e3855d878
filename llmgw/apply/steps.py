# SPDX-License-Identifier: Apache-2.0
"""A plan as the flat list of steps that the playbook loops over: plain JSON, finished text, no decision left (R3).
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from llmgw.apply.publishing import Publishing
from llmgw.decide import Decision
from llmgw.model.ids import EndpointId, NodeName, UnitName
from llmgw.model.plan import FetchWeights, MarkDevices, Publish, StartMembers, Step, StopMembers
from llmgw.model.unit import UnitFile
from llmgw.nodekit import unitfile

Json = dict[str, Any]
_SLACK_S = 60
"""Beyond all that the module itself waits for: its lock, systemd, one request that hangs."""
_STOP_S = 3600
"""Longest that the removal of units may take: no plan knows how long a unit that leaves may take to stop."""


def steps_of(decision: Decision, publishing: Publishing) -> Iterator[Json]:
    """The steps in order. Each has `title`, `wave`, `waves`, `kind`, `hosts` and what its kind needs:

    `units`: `hosts` {name: {present, absent, expected, first}} for one call of replica_units a host, `generation`, and
    `takes` {endpoint: {hosts, process}}: what was drained for it (see `llmgw.routes.withheld.Taken`);
    `fetch`: `hosts` {name: {directory, models: [{hf_id, revision}]}} for one call of weights_fetch a host;
    `marks`: `hosts` {name: [{device, code, message}]} for one call of node_marks a host;
    `publish`: `hosts` [gateway names], `bundle` and `bundle_rest` (its halves), `generation`, `routes_digest`, `drain`,
    `drain_timeout_s`, `floors`, `ready`, `trials` [{endpoints, answers, max_errors, timeout_s}] for the module bundle;
    `wait`: `hosts` [], `seconds`: nothing else can be done for a drain because some gateway cannot be asked (G6b).
    `expected` is what the host holds when the steps before this one went well; `first` marks a host's first step, the
    only one that check mode can hold against it. `at_once`: how many hosts wait for one another, members of replicas
    over several nodes: all of them must be at work at a time. `timeout_s`: a host that has not answered by then hangs.
    """
    plan = decision.plan
    expected = {node: dict(units) for node, units in plan.expected_units.items()}
    touched: set[str] = set()
    generation = plan.generation
    for number, wave in enumerate(plan.waves, 1):
        drained: set[EndpointId] = set()
        for step in wave.steps:
            common = {"title": wave.title, "wave": number, "waves": len(plan.waves)}
            for one in _of_kind(step, plan.generation, generation, publishing):
                if one["kind"] == "units":
                    _expect(one["hosts"], expected, touched)
                yield common | one | _takes(step, drained)
            generation += isinstance(step, Publish)


def undo_of(decision: Decision, publishing: Publishing) -> Iterator[tuple[str, str, Json]]:
    """The steps that put back what a wave touched of a service, by wave (its number as text) and service, in order:
    what `steps_of` gives, without `expected`, since a node is somewhere in the middle of the wave.

    Their routes outrank all that the plan itself publishes.
    """
    plan = decision.plan
    generation = plan.generation + sum(isinstance(step, Publish) for wave in plan.waves for step in wave.steps)
    for number, wave in enumerate(plan.waves, 1):
        for service in sorted(wave.undo):
            title = f"put back {service} (wave {number}: {wave.title})"
            common = {"title": title, "wave": number, "waves": len(plan.waves)}
            drained: set[EndpointId] = set()
            for step in wave.undo[service]:
                for one in _of_kind(step, plan.generation, generation, publishing):
                    yield str(number), service, common | one | _takes(step, drained)
                generation += isinstance(step, Publish)


def _of_kind(step: Step, generation: int, published: int, publishing: Publishing) -> Iterator[Json]:
    """One step of a plan as the playbook's; a drain that some gateway cannot answer for is two."""
    match step:
        case Publish():
            yield publishing.step(step, published)
            if publishing.blind_s(step):
                yield {"kind": "wait", "hosts": [], "seconds": publishing.blind_s(step)}
        case FetchWeights():
            yield {"kind": "fetch", "hosts": _fetching(step)}
        case MarkDevices():
            yield {"kind": "marks", "hosts": _marking(step)}
        case StartMembers() | StopMembers():
            common = {"kind": "units", "generation": generation, "at_once": _at_once(step)}
            yield common | {"hosts": dict(_hosts(step)), "timeout_s": _timeout_s(step)}


def _takes(step: Step, drained: set[EndpointId]) -> Json:
    """What a step that changes units takes of the endpoints drained before it, which others add to."""
    if isinstance(step, Publish):
        drained.update(step.drain)
    if not isinstance(step, StartMembers | StopMembers):
        return {}
    hosts: dict[str, set[str]] = {}
    leads: dict[str, str] = {}
    for node, name in step.units if isinstance(step, StopMembers) else ():
        hosts.setdefault(unitfile.named(name).replica or "", set()).add(node)
    for unit in step.units if isinstance(step, StartMembers) else ():
        hosts.setdefault(unit.replica, set()).add(unit.node)
        if not unit.rank:
            leads[unit.replica] = unit.process_digest
    takes: Json = {}
    for endpoint in sorted(drained):
        replica, _, leader = endpoint.rpartition("@")
        if replica in hosts:
            takes[endpoint] = {"hosts": sorted({*hosts[replica], leader}), "process": leads.get(replica)}
    return {"takes": takes}


def _marking(step: MarkDevices) -> dict[NodeName, list[Json]]:
    hosts: dict[NodeName, list[Json]] = {}
    for one in step.devices:
        mark = {"device": one.device, "code": one.code, "message": one.message}
        hosts.setdefault(one.node, []).append(mark)
    return hosts


def _fetching(step: FetchWeights) -> dict[NodeName, Json]:
    hosts: dict[NodeName, Json] = {}
    for one in step.fetches:
        host = hosts.setdefault(one.node, {"directory": one.directory, "models": []})
        host["models"].append({"hf_id": one.hf_id, "revision": one.revision})
    return hosts


def _at_once(step: StartMembers | StopMembers) -> int:
    if not isinstance(step, StartMembers):
        return 0
    waiting = {unit.replica for unit in step.units if unit.readiness.kind == "leader"}
    return len({unit.node for unit in step.units if unit.replica in waiting})


def _timeout_s(step: StartMembers | StopMembers) -> int:
    """The module's own bound (see its documentation): stop, become ready, and both again when that fails; a member
    that is put back gets twice its time.
    """
    if not isinstance(step, StartMembers):
        return _STOP_S
    stop = max((unit.stop_timeout_s for unit in step.units), default=0)
    ready = max((max(unit.readiness.start_timeout_s, unit.readiness.ready_timeout_s) for unit in step.units), default=0)
    return int(2 * stop + 3 * ready + _SLACK_S)


def _hosts(step: StartMembers | StopMembers) -> Iterator[tuple[str, Json]]:
    present: dict[NodeName, list[UnitFile]] = {}
    absent: dict[NodeName, list[UnitName]] = {}
    if isinstance(step, StartMembers):
        for unit in step.units:
            present.setdefault(unit.node, []).append(unit)
    else:
        for node, name in step.units:
            absent.setdefault(node, []).append(name)
    for node in sorted({*present, *absent}):
        yield (
            node,
            {"present": [_present(unit) for unit in present.get(node, [])], "absent": list(absent.get(node, []))},
        )


def _expect(hosts: dict[NodeName, Json], expected: dict[NodeName, dict[UnitName, str]], touched: set[str]) -> None:
    """Adds to a step what its hosts hold before it, and notes what they hold after it."""
    for node, host in hosts.items():
        before = expected.setdefault(node, {})
        host |= {"expected": dict(before), "first": node not in touched}
        touched.add(node)
        before.update({unit["name"]: unit["text_digest"] for unit in host["present"]})
        for name in host["absent"]:
            before.pop(name, None)


def _present(unit: UnitFile) -> Json:
    keys = ("name", "text", "process_digest", "text_digest", "stop_timeout_s", "environment_files")
    return {key: getattr(unit, key) for key in keys} | {"readiness": asdict(unit.readiness)}
