# SPDX-License-Identifier: Apache-2.0
"""A host that freezes costs its own replica and a few seconds, whenever it does so; after it, the next apply ends what
was begun.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fleet.changes.fleet import ChangedFleet, option
from tests.fleet.changes.wishes import Service, Wish
from tests.fleet.site import GATEWAY, Outcome, wait_for

pytestmark = pytest.mark.timeout(300)

PATIENCE_S = 150.0
"""Far beyond what ssh's keep-alives and Ansible's connection timeout cost together, and far below for ever."""
VICTIM, EARLIER = "n3", "n2"
"""Hosts of chat/1 and chat/0, which roll in this order."""


@pytest.fixture(autouse=True)
def resting(fleet: ChangedFleet) -> Iterator[None]:
    """chat/0, chat/1, chat/2 on n2, n3, n4, all with the same argument."""
    _write(fleet, 20)
    done = fleet.apply()
    assert done.status == 0, done.err
    assert set(fleet.running()) == {"chat/0@n2", "chat/1@n3", "chat/2@n4"}
    yield
    fleet.lab.thaw(VICTIM)
    fleet.lab.wait_ssh(VICTIM)


def _write(fleet: ChangedFleet, argument: int, max_unavailable: int = 1) -> None:
    service = Service(3, argument=argument, spread="node", max_unavailable=max_unavailable, max_surge=0)
    fleet.write(Wish({"chat": service}, cordoned=frozenset({GATEWAY})))


def _has(fleet: ChangedFleet, argument: int) -> set[str]:
    """Hosts whose engine was started with that argument."""
    return {
        one.partition("@")[2] for one, words in fleet.running().items() if option(words, "--ttft-ms") == str(argument)
    }


def _converges(fleet: ChangedFleet, argument: int) -> None:
    fleet.lab.thaw(VICTIM)
    fleet.lab.wait_ssh(VICTIM)
    done = fleet.apply()
    assert done.status == 0, done.out + done.err
    assert _has(fleet, argument) == {"n2", "n3", "n4"}
    wait_for(lambda: list(fleet.endpoints().values()) == ["ready"] * 3, 20, "all three to be ready")


@pytest.mark.long
def test_a_host_that_is_frozen_before_an_apply_is_named_and_the_others_are_changed(fleet: ChangedFleet) -> None:
    # One is away by the freeze, so the rollout may take one more only where two may be.
    _write(fleet, 30, max_unavailable=2)
    fleet.lab.freeze(VICTIM)
    wait_for(lambda: sorted(fleet.endpoints().values()) == ["failed", "ready", "ready"], 60, "the freeze to be seen")
    done, seconds = _applied(fleet)
    assert done.status == 0, done.out + done.err
    assert seconds < PATIENCE_S
    said = json.dumps(done.document) + done.err
    assert f"{VICTIM} does not answer" in said
    assert _has(fleet, 30) == {"n2", "n4"}
    assert _has(fleet, 20) == {VICTIM}
    _converges(fleet, 30)


@pytest.mark.long
def test_a_host_that_freezes_in_its_own_step_ends_the_rollout_within_its_timeout(fleet: ChangedFleet) -> None:
    _write(fleet, 40)
    with _frozen_once(fleet, VICTIM, started_on=VICTIM, argument=40):
        done, seconds = _applied(fleet)
    assert done.status == 4, done.out + done.err
    assert seconds < PATIENCE_S
    assert VICTIM in done.err
    assert _has(fleet, 20) == {"n4"}, "nothing after it was begun"
    assert fleet.endpoints()["chat/0@n2"] == fleet.endpoints()["chat/2@n4"] == "ready"
    _converges(fleet, 40)


@pytest.mark.long
def test_a_host_that_freezes_in_a_step_of_another_does_not_hold_that_one_up(fleet: ChangedFleet) -> None:
    _write(fleet, 50)
    with _frozen_once(fleet, VICTIM, started_on=EARLIER, argument=50):
        done, seconds = _applied(fleet)
    assert done.status == 4, done.out + done.err
    assert seconds < PATIENCE_S
    assert VICTIM in done.err
    assert _has(fleet, 50) == {EARLIER}
    assert fleet.endpoints()["chat/0@n2"] == "ready"
    _converges(fleet, 50)


def _applied(fleet: ChangedFleet) -> tuple[Outcome, float]:
    begun = time.monotonic()
    try:
        done = fleet.apply()
    finally:
        seconds = time.monotonic() - begun
        print(f"apply with a frozen host took {seconds:.1f} s")  # noqa: T201 - shown by pytest -s
    return done, seconds


@contextmanager
def _frozen_once(fleet: ChangedFleet, host: str, *, started_on: str, argument: int) -> Iterator[None]:
    """Freezes the host at the moment when an engine with that argument has been started on `started_on`."""
    stop, trouble = threading.Event(), []

    def watch() -> None:
        try:
            while started_on not in _has(fleet, argument):
                if stop.wait(0.02):
                    return
            fleet.lab.freeze(host)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            trouble.append(error)

    watcher = threading.Thread(target=watch, name="freezing")
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join(30)
    assert not trouble, trouble
