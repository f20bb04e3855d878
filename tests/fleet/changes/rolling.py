# SPDX-License-Identifier: Apache-2.0
"""One changed argument of running services, applied under constant load and watched through the gateway."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.fleet.changes.fleet import ChangedFleet
from tests.fleet.changes.wishes import Wish
from tests.fleet.faults.load import Load, Request, Traffic
from tests.fleet.faults.sampling import Sampling
from tests.fleet.site import GATEWAY, Outcome

_TIMEOUT_S = 60.0
_WARM_S = 1.0


@dataclass(frozen=True, slots=True)
class Rolled:
    """What was seen of a rollout. `available`: by service, the fewest that took new requests at any moment."""

    outcome: Outcome
    waves: Sequence[str]
    seconds: float
    samples: int
    widest_gap_s: float
    available: dict[str, int]
    requests: int
    failed: Sequence[Request]


def roll(fleet: ChangedFleet, wish: Wish, clients: int) -> Rolled:
    """Applies the wish while so many clients of every service ask, half of them streaming."""
    fleet.write(wish)
    plan, _status = fleet.plan()
    traffic = tuple(Traffic(name, clients, tokens=20, pause_s=0.02) for name in sorted(wish.services))
    with Sampling(fleet.inside, GATEWAY) as sampling, Load(fleet.lab, fleet.url, traffic, _TIMEOUT_S) as load:
        time.sleep(_WARM_S)
        begun = time.monotonic()
        outcome = fleet.apply()
        ended = time.monotonic()
        load.stop()
        seen = sampling.within(begun, ended)
    return Rolled(
        outcome=outcome,
        waves=plan["waves"],
        seconds=ended - begun,
        samples=len(seen),
        widest_gap_s=max((after.at - before.at for before, after in pairwise(seen)), default=0.0),
        available={name: min(one.available(name) for one in seen) for name in wish.services},
        requests=len(load.requests),
        failed=load.failures(),
    )
