# SPDX-License-Identifier: Apache-2.0
"""A few random catalogs on real hosts; `make random-catalogs` goes through many."""

from __future__ import annotations

import os
from itertools import islice

import pytest

from tests.fleet.changes.edits import Disturbance, Step, story
from tests.fleet.changes.fleet import ChangedFleet
from tests.fleet.changes.sequence import go_through
from tests.fleet.changes.wishes import Service, Wish

pytestmark = pytest.mark.timeout(300)

HOSTS = ("n1", "n2", "n3", "n4")
SEED = 3


def test_a_seed_tells_the_same_story_every_time_and_another_one_another() -> None:
    assert list(story(1, HOSTS, 30)) == list(story(1, HOSTS, 30))
    assert list(story(1, HOSTS, 30)) != list(story(2, HOSTS, 30))
    assert list(story(1, HOSTS, 10)) == list(islice(story(1, HOSTS, 30), 10))


def test_stories_have_edits_and_disturbances_of_every_kind() -> None:
    steps = [step for seed in range(8) for step in story(seed, HOSTS, 50)]
    words = " ".join(edit for step in steps for edit in step.edits)
    for kind in ("replicas", "argument", "rename", "delete", "add", "cordon", "undrain", "max_surge", "spread"):
        assert kind in words
    assert {one.kind for step in steps for one in step.disturbances} == {
        *("stop", "kill", "edit", "delete", "drop-in", "remove", "disable", "reboot")
    }


@pytest.mark.long
def test_random_catalogs_converge_one_after_another(fleet: ChangedFleet) -> None:
    lines: list[str] = []
    seed = int(os.environ.get("LLMGW_CHANGES_SEED", SEED))
    found = go_through(fleet, story(seed, fleet.lab.hosts, 3), lines.append)
    assert not found, "\n".join([f"seed {seed}", *lines, *found])


@pytest.mark.long
def test_what_was_done_by_hand_is_put_right_and_what_is_wrong_would_be_told(fleet: ChangedFleet) -> None:
    wish = Wish({"amber": Service(4)})
    by_hand = (Disturbance("drop-in", 1), Disturbance("remove", 2))
    lines: list[str] = []
    found = go_through(fleet, [Step(1, (), (), wish), Step(2, by_hand, (), wish)], lines.append)
    assert not found, "\n".join([*lines, *found])
