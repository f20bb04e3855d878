# SPDX-License-Identifier: Apache-2.0
"""A changed argument rolls over many hosts under load: how far, how fast, and what clients noticed.

    python -m tests.fleet.changes.rollout [--hosts 16] [--units 8] [--max-unavailable 8] [--max-surge 0] [--clients 8]

One service has a replica in every place: hosts times units. Its argument changes, `llmgw apply` rolls it in waves, and
meanwhile the gateway's own view is read 20 times a second and clients ask, half of them streaming. Prints one JSON
line: waves, seconds, the fewest that were available and must be, requests and how many failed. A machine that does
other work, or has few cores for so many hosts, is slow, not wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.fleet.changes.fleet import ChangedFleet
from tests.fleet.changes.random_catalogs import say
from tests.fleet.changes.rolling import roll
from tests.fleet.changes.wishes import Service, Wish
from tests.fleet.lab.hosts import Lab
from tests.fleet.lab.obstacles import obstacles

NAME = "chat"


def main() -> int:
    """0 when no more than declared was away and no request failed, 1 otherwise, 2 where no lab can run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=16, help="hosts (16)")
    parser.add_argument("--units", type=int, default=8, help="replicas a host (8)")
    parser.add_argument("--max-unavailable", type=int, default=8, help="replicas that may be away (8)")
    parser.add_argument("--max-surge", type=int, default=0, help="stand-ins (0)")
    parser.add_argument("--clients", type=int, default=8, help="clients, half of them streaming (8)")
    asked = parser.parse_args()
    if found := obstacles():
        say("; ".join(found))
        return 2
    replicas = asked.hosts * asked.units
    one = Service(
        replicas,
        argument=20,
        memory_gb=0.01,
        spread="node",
        max_unavailable=asked.max_unavailable,
        max_surge=asked.max_surge,
    )
    with Lab(asked.hosts) as lab, tempfile.TemporaryDirectory() as folder:
        fleet = ChangedFleet(lab, Path(folder, "fleet"))
        fleet.commands.folder.mkdir()
        fleet.prepare(Path(folder))
        fleet.write(Wish({NAME: one}))
        first = fleet.apply()
        if first.status != 0:
            say(f"the first apply ended with {first.status}:\n{first.out[-4000:]}\n{first.err}")
            return 1
        rolled = roll(fleet, Wish({NAME: replace(one, argument=25)}), asked.clients)
        second = fleet.apply()
    least = replicas - asked.max_unavailable
    row = {
        "hosts": asked.hosts,
        "units": replicas,
        "max_unavailable": asked.max_unavailable,
        "max_surge": asked.max_surge,
        "status": rolled.outcome.status,
        "waves": len(rolled.waves),
        "seconds": round(rolled.seconds, 1),
        "available_at_least": rolled.available[NAME],
        "must_be": least,
        "samples": rolled.samples,
        "samples_a_second": round(rolled.samples / rolled.seconds, 1),
        "requests": rolled.requests,
        "failed": len(rolled.failed),
        "second_apply_changes": len(second.document["changed"]) if second.status == 0 else None,
    }
    say(json.dumps(row))
    for failed in rolled.failed[:5]:
        say(f"failed: {failed}")
    well = rolled.outcome.status == 0 and not rolled.failed and rolled.available[NAME] >= least
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
