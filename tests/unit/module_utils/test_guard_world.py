# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to whom in whatever order: engines without their group end in time, and a repaired group runs.

Each property has a seeded defect that makes it fail, tried by the last test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils import guard
from tests.unit.module_utils.guard_world import STOP_TIMEOUT_S, TICK_S, World

SIZE = 3
LIMIT_S = 10.0 + STOP_TIMEOUT_S
"""From a fault to the last engine gone; a drain that was going on may take its own time first."""
ONE_RANK = ("kill_engine", "kill_guard", "freeze", "thaw", "lose_power", "stop", "harden")
ranks = st.integers(0, SIZE - 1)
events = st.one_of(
    st.tuples(st.sampled_from(ONE_RANK), ranks),
    st.tuples(st.just("cut"), ranks, ranks),
    st.tuples(st.just("repair")),
    st.tuples(st.just("run"), st.sampled_from((TICK_S, 0.6, 2.0, 4.8, 12.0))),
)
stories = st.lists(events, max_size=14)
Story = list[tuple[Any, ...]]


def tell(world: World, story: Story, each: Callable[[], None]) -> None:
    """Lets a story happen; `each` looks after every tick."""
    for name, *arguments in story:
        if name == "run":
            for _ in range(round(arguments[0] / TICK_S)):
                world.tick()
                each()
        else:
            getattr(world, name)(*arguments)


def engines_whose_group_is_broken_end_in_time(world: World, story: Story) -> None:
    since: dict[tuple[Any, ...], float] = {}

    def each() -> None:
        found = {(epoch, fault) for epoch in world.epochs() for fault in world.faults(epoch)}
        for gone in set(since) - found:
            del since[gone]
        for one in found:
            lasted = world.now - since.setdefault(one, world.now)
            assert lasted <= LIMIT_S, f"an engine lives on {lasted:.1f} s after {one}"

    tell(world, [("run", 2.0), *story, ("run", 15.0)], each)


def a_repaired_group_runs_together(world: World, story: Story) -> None:
    tell(world, [("run", 2.0), *story, ("run", 1.0), ("repair",), ("run", 30.0)], lambda: None)
    assert sorted(world.engines) == list(range(SIZE)), world.said[-12:]
    assert len(world.epochs()) == 1


PROPERTIES = (engines_whose_group_is_broken_end_in_time, a_repaired_group_runs_together)


def try_all(holds: Callable[[World, Story], None], count: int, phases: tuple[Phase, ...]) -> None:
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    @given(stories)
    def tried(story: Story) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            holds(World(monkeypatch, SIZE), story)

    tried()


@pytest.mark.parametrize("holds", PROPERTIES)
def test_it_holds(holds: Callable[[World, Story], None]) -> None:
    try_all(holds, 80, (Phase.generate, Phase.shrink))


def forget(self: guard.Guard, caller: guard.Caller, _why: str) -> None:
    """A member whose connection ended is waited for while the engine goes on."""
    caller.sock.close()
    if caller.rank is None:
        self._strangers.remove(caller)
    else:
        self._peers[caller.rank].caller = None


DEFECTS: dict[str, tuple[Callable[[World, Story], None], object, str, object]] = {
    "silence is borne": (PROPERTIES[0], guard, "SILENCE_S", 1e9),
    "engines that hear no SIGTERM are left alone": (PROPERTIES[0], guard, "KILL_AFTER_S", 1e9),
    "a connection that ends ends nothing": (PROPERTIES[0], guard.Guard, "_lose", forget),
    "a group that broke is no failure": (PROPERTIES[1], guard, "BROKEN", 0),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_seeded_defect_is_seen(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holds, where, name, value = DEFECTS[defect]
    monkeypatch.setattr(where, name, value)
    with pytest.raises(AssertionError):
        try_all(holds, 600, (Phase.generate,))
