# SPDX-License-Identifier: Apache-2.0
"""What is really there after an apply, seen without llmgw: files, processes, ports, and what the gateway tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.fleet.changes.fleet import ChangedFleet, option
from tests.fleet.changes.wishes import Wish
from tests.fleet.site import wait_for

_SETTLED_S = 20.0


def wrongs(fleet: ChangedFleet, wish: Wish, status: int) -> list[str]:
    """Sentences about what is not as it must be after an apply that ended with `status`; empty when all is well."""
    plan, planned_status = fleet.plan()
    homeless = {one["replica"] for one in plan["unplaced"]}
    found = [*_of_statuses(wish, plan, status, planned_status)]
    placed = {f"{one['replica']}@{node}" for one in plan["actions"] for node in one["nodes"] if one["kind"] == "keep"}
    found += [f"{one['replica']} is not at rest: {one['kind']}" for one in plan["actions"] if one["kind"] != "keep"]
    found += _of_hosts(fleet, placed, homeless)
    found += _of_routes(fleet, homeless)
    found += _of_answers(fleet, wish)
    return found


def _of_statuses(wish: Wish, plan: dict[str, Any], status: int, planned: int) -> Iterator[str]:
    refused = [one["service"] for one in plan.get("rollouts", ()) if one["at_once"] == 0]
    wanted = 3 if plan["unplaced"] or refused else 0
    if status != wanted:
        yield f"apply ended with {status}, although {len(plan['unplaced'])} have no place and {refused} are refused"
    if planned != wanted:
        yield f"plan --detailed-exitcode ended with {planned}, not {wanted}, right after an apply: {plan['waves']}"
    if plan["unplaced"] and not any(one.memory_gb > 1 or one.spread for one in wish.services.values()):
        yield f"{plan['unplaced']} have no place, although there is room on every host"
    placed = Counter(one["service"] for one in plan["actions"] if one["kind"] != "stop")
    missing = Counter(one["service"] for one in plan["unplaced"])
    for name, service in wish.services.items():
        if placed[name] + missing[name] != service.replicas:
            yield f"{placed[name]} of {name} are placed and {missing[name]} are not; asked for are {service.replicas}"


def _of_hosts(fleet: ChangedFleet, placed: set[str], homeless: set[str]) -> Iterator[str]:
    files, running = fleet.files(), fleet.running()
    expected = {one for one in placed if one.partition("@")[0] not in homeless}
    for what, seen in (("unit files", files), ("processes", set(running))):
        here = {one for one in seen if one.partition("@")[0] not in homeless}
        if here != expected:
            yield f"{what}: missing {sorted(expected - here)}, too many {sorted(here - expected)}"
        twice = [name for name, count in Counter(one.partition("@")[0] for one in seen).items() if count > 1]
        if twice:
            yield f"{what}: {twice} are on several hosts"
    ports = Counter((one.partition("@")[2], option(words, "--port")) for one, words in running.items())
    yield from (f"{count} engines of {host} have port {port}" for (host, port), count in ports.items() if count > 1)
    for host in fleet.lab.hosts:
        engines, units = fleet.inside.engines(host), sum(one.endswith(f"@{host}") for one in running)
        if engines != units:
            yield f"{host} has {engines} engines and {units} units that run one"


def _of_routes(fleet: ChangedFleet, homeless: set[str]) -> Iterator[str]:
    running = {one for one in fleet.running() if one.partition("@")[0] not in homeless}

    def settled() -> bool:
        there = fleet.endpoints()
        return {one for one in there if one.partition("@")[0] not in homeless} == running and set(there.values()) <= {
            "ready"
        }

    try:
        wait_for(settled, _SETTLED_S, "the gateway to route to exactly what runs")
    except AssertionError:
        there = fleet.endpoints()
        states = {name: state for name, state in there.items() if state != "ready"}
        missing, more = sorted(running - set(there)), sorted(set(there) - running)
        yield f"routes: missing {missing}, too many {more}, not ready {states}"


def _of_answers(fleet: ChangedFleet, wish: Wish) -> Iterator[str]:
    serving = {one.partition("/")[0] for one in fleet.endpoints()}
    with fleet.commands.client() as client:
        for name in sorted(serving & wish.services.keys()):
            try:
                answer = client.chat.completions.create(
                    model=name, messages=[{"role": "user", "content": "Still there?"}], max_tokens=3
                )
                if not answer.choices[0].message.content:
                    yield f"{name} answered nothing"
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told with the rest
                yield f"{name} does not answer: {error!r}"
