# SPDX-License-Identifier: Apache-2.0
"""One cell of the matrix: a rollout under load, one fault in one of its steps, healing, and what became of it all."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fleet.faults import injection
from tests.fleet.faults.injection import Fault, Target
from tests.fleet.faults.judging import Facts, Fallen, judge
from tests.fleet.faults.load import Load, Request, Traffic
from tests.fleet.faults.sampling import Sampling
from tests.fleet.faults.site import TOKENS, FaultSite
from tests.fleet.faults.steps import SERVICE, Spotted, Step, Watch, unit_of
from tests.fleet.site import GATEWAY

CLIENTS = 6
REAL_CLIENTS, REAL_TOKENS, REAL_PAUSE_S = 3, 16, 0.2
CLIENT_TIMEOUT_S = 45.0
RUN_LIMIT_S = 200.0
SPOT_LIMIT_S = 90.0
LOOK_S = 0.03
APPLIES = 2
SETTLE_S = 20.0
AFTER_S = 1.0
AROUND_S = 0.25
"""Samples so near to the moment of a fault tell what its replicas had in flight."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What happened. `problems`: what must not have happened, each with its evidence."""

    step: str
    fault: str
    facts: Facts
    run_s: float
    converge_s: float
    applies: int
    problems: tuple[str, ...]
    output: str


class MissedError(Exception):
    """The run was over before the step was seen."""


def run_cell(site: FaultSite, step: Step, fault: Fault, folder: Path) -> Cell:
    """One cell. Leaves the site converged, or not known."""
    old = site.ensure(step.replicas, real=step.real)
    new = step.change(old)
    place = injection.Place(site.lab, site.inside, GATEWAY)
    problems: list[str] = []
    log = folder / "run.log"
    traffic = Traffic(SERVICE, *((REAL_CLIENTS, REAL_TOKENS, REAL_PAUSE_S) if step.real else (CLIENTS, TOKENS)))
    with (
        _prepared(place, fault, site.nodes),
        Sampling(site.inside, GATEWAY) as sampling,
        Load(site.lab, site.url, (traffic,), CLIENT_TIMEOUT_S) as load,
    ):
        _until(lambda: load.answered() >= CLIENTS, 30, "first answers")
        before = site.before(old, sampling.last.generation)
        site.shape = None
        site.write(new)
        began = time.monotonic()
        run = site.start_apply(log)
        try:
            spotted = _spot(run, step, Watch(site.inside, before, new, sampling.last), sampling, log)
            fallen = _inject(fault, place, _target(spotted, before.units), sampling)
            _wait_for_end(run, fault, problems)
        finally:
            _kill(run)
        run_s = time.monotonic() - began
        fault.heal(place, fallen.target)
        healed = time.monotonic()
        # What was begun is gone on with, or taken back: both must be possible after any fault.
        final = old if step.back and run.returncode else new
        site.write(final)
        applies = _converge(site, sampling, problems, folder)
        converge_s = time.monotonic() - healed
        _until(lambda: load.answered(healed) >= CLIENTS, 30, "answers after the fault")
        ended = time.monotonic()
        time.sleep(AFTER_S)
    if not problems:
        site.shape = final
    facts = Facts(
        old, new, fallen, began, ended, tuple(sampling.within(began, ended)), _since(load, began), step.takes_away
    )
    problems += judge(facts)
    return Cell(
        step.name, fault.name, facts, run_s, converge_s, applies, tuple(problems), log.read_text(errors="replace")
    )


@contextmanager
def _prepared(place: injection.Place, fault: Fault, nodes: tuple[str, ...]) -> Iterator[None]:
    """Every node made ready for the fault: which one it will meet is not known before."""
    ready: list[Target] = []
    try:
        if fault.prepare is not None:
            for node in nodes:
                fault.prepare(place, Target(node, "", "", ""))
                ready.append(Target(node, "", "", ""))
        yield
    finally:
        for one in ready:
            if fault.clean is not None:
                fault.clean(place, one)


def _since(load: Load, began: float) -> tuple[Request, ...]:
    return tuple(one for one in load.requests if one.ended >= began)


def _until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds:g} s for {what}"
        time.sleep(0.05)


def _spot(run: subprocess.Popen[str], step: Step, watch: Watch, sampling: Sampling, log: Path) -> Spotted:
    """Host and unit of the step, the moment it is under way."""
    end = time.monotonic() + SPOT_LIMIT_S
    while True:
        watch.sample = sampling.last
        found = step.spot(watch)
        if found is not None:
            return found
        if run.poll() is not None or time.monotonic() > end:
            raise MissedError(f"the step {step.name} was never seen; the run said:\n{log.read_text()[-3000:]}")
        time.sleep(LOOK_S)


def _target(spotted: Spotted, units: dict[str, set[str]]) -> Target:
    host, unit = spotted
    others = sorted((other, one) for other, names in units.items() for one in names if other != host)
    simulated = [one for one in others if one[1].startswith(f"{SERVICE}.")]
    return Target(host, unit, *simulated[0])


def _inject(fault: Fault, place: injection.Place, target: Target, sampling: Sampling) -> Fallen:
    """The fault itself, and what it took away."""
    at = time.monotonic()
    fault.inject(place, target)
    time.sleep(2 * AROUND_S)
    near = sampling.within(at - AROUND_S, at + AROUND_S)
    names = {name for sample in near for name in sample.endpoints if _takes(fault, target, name)}
    in_flight = {
        name: max(sample.endpoints[name].in_flight for sample in near if name in sample.endpoints) for name in names
    }
    return Fallen(target, at, in_flight)


def _takes(fault: Fault, target: Target, endpoint: str) -> bool:
    host, unit = unit_of(endpoint)
    match fault.engines:
        case "host":
            return host == target.host
        case "unit":
            return (host, unit) == (target.host, target.unit)
        case "other":
            return (host, unit) == (target.other_host, target.other_unit)
        case "none":
            return False


def _wait_for_end(run: subprocess.Popen[str], fault: Fault, problems: list[str]) -> None:
    try:
        run.wait(10 if fault.ends_run else RUN_LIMIT_S)
    except subprocess.TimeoutExpired:
        problems.append(f"the run did not end within {RUN_LIMIT_S:g} s")


def _kill(run: subprocess.Popen[str]) -> None:
    if run.poll() is None:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait(10)


def _converge(site: FaultSite, sampling: Sampling, problems: list[str], folder: Path) -> int:
    """Applies until nothing is to do, at most twice; what is wrong after that is told."""
    said, applies = "", 0
    left: dict[str, str] = {}
    for applies in range(1, APPLIES + 1):
        done = site.apply()
        said = f"status {done.status}\n{done.out}\n{done.err}"
        (folder / f"apply-{applies}.log").write_text(said)
        left, wanted = site.planned()
        if not left:
            break
    else:
        problems.append(f"after {APPLIES} applies the plan still has {left}; the last said: {said[-1500:]}")
        return applies
    try:
        _until(lambda: not site.differences(wanted, sampling.last), SETTLE_S, "units and endpoints as planned")
    except AssertionError:
        problems.extend(site.differences(wanted, sampling.last))
    return applies
