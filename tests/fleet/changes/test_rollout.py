# SPDX-License-Identifier: Apache-2.0
"""Rollouts on real hosts under constant load: what is promised to be available is, at every moment that is seen."""

from __future__ import annotations

import pytest

from tests.fleet.changes.fleet import ChangedFleet
from tests.fleet.changes.rolling import roll
from tests.fleet.changes.wishes import Service, Wish

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]


def wish(argument: int) -> Wish:
    """Twelve units on four hosts: a service of each way to roll, and one that stays as it is."""
    return Wish(
        {
            "inplace": Service(4, argument=argument, spread="node", max_unavailable=1, max_surge=0),
            "surging": Service(4, argument=argument, spread="node", max_unavailable=0, max_surge=1),
            "resting": Service(4, spread="node"),
        }
    )


def test_a_changed_argument_rolls_without_a_failed_request_and_never_takes_away_more_than_declared(
    fleet: ChangedFleet,
) -> None:
    fleet.write(wish(20))
    first = fleet.apply()
    assert first.status == 0, first.err
    before = fleet.commands.units()
    rolled = roll(fleet, wish(25), clients=2)
    assert rolled.outcome.status == 0, rolled.outcome.out + rolled.outcome.err
    assert not rolled.failed, rolled.failed[:3]
    assert rolled.requests > 50
    assert rolled.samples > 5 * rolled.seconds, "the gateway was asked too seldom to see anything"
    assert rolled.available["inplace"] >= 3
    assert rolled.available["surging"] >= 4
    assert rolled.available["resting"] == 4
    assert len(rolled.waves) >= 6
    after = fleet.commands.units()
    assert after.keys() == before.keys(), "no stand-in stays, and nothing moved"
    restarted = {name.partition(".")[0] for name in after if after[name] != before[name]}
    assert restarted == {"inplace", "surging"}
    assert fleet.apply().document["changed"] == []
