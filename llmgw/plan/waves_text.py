# SPDX-License-Identifier: Apache-2.0
"""The waves of a plan for people, a line each step, and what puts back a wave that fails (R4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmgw.model.plan import FetchWeights, Floor, MarkDevices, Plan, Publish, StartMembers, Step, Trial, Wave
from llmgw.plan.fetches_text import fetch_lines
from llmgw.plan.wording import count, number, some


def wave_lines(plan: Plan) -> list[str]:
    """The waves in order, a line each step, and for each service that could fail in it, how it is put back."""
    return [line for position, wave in enumerate(plan.waves, 1) for line in _wave(position, wave)]


def _wave(position: int, wave: Wave) -> Iterator[str]:
    yield f"{position}. {wave.title}"
    for step in wave.steps:
        yield from (f"   {line}" for line in _step(step))
    for service, steps in sorted(wave.undo.items()):
        told = "; ".join(line for step in steps for line in _step(step, back=True))
        yield f"   if {service} fails: {told}"


def _step(step: Step, *, back: bool = False) -> Iterator[str]:
    """What a step does; `back`: it puts back what was there."""
    if isinstance(step, FetchWeights):
        yield from fetch_lines(step.fetches)
    elif isinstance(step, StartMembers):
        nodes = {unit.node for unit in step.units}
        verb = "put back" if back else "write"
        yield f"{verb} {count(step.units, 'unit')} on {count(nodes, 'node')}, wait until ready"
    elif isinstance(step, Publish):
        endpoints = sum(len(route.endpoints) for route in step.routes.routes)
        drain = f", drain {some(step.drain)} (up to {step.drain_timeout_s} s)" if step.drain else ""
        drain += _while(step.floors) if drain else ""
        ready = f", wait until gateways see {some(step.ready)}" if step.ready else ""
        yield f"publish routes to {number(endpoints, 'endpoint')}{drain}{ready}"
        yield from map(_trial, step.trials)
    elif isinstance(step, MarkDevices):
        yield f"quarantine {count(step.devices, 'device')}"
    else:
        yield f"stop {count(step.units, 'unit')}"


def _while(floors: Sequence[Floor]) -> str:
    """` while at least 2 others serve`; the services are named where there are several."""
    if not floors:
        return ""
    told = [
        f"{number(floor.at_least, 'other')}{f' of {floor.service}' if len(floors) > 1 else ''}"
        for floor in sorted(floors, key=lambda floor: floor.service)
    ]
    serves = "serves" if len(floors) == 1 and floors[0].at_least == 1 else "serve"
    return f" while at least {' and '.join(told)} {serves}"


def _trial(trial: Trial) -> str:
    errors = "without an error" if trial.max_errors == 0 else f"with at most {number(trial.max_errors, 'error')}"
    each = " each" if len(trial.endpoints) > 1 else ""
    return (
        f"wait for {number(trial.answers, 'good answer')} of {some(trial.endpoints)}{each}, {errors},"
        f" for up to {trial.timeout_s} s"
    )
