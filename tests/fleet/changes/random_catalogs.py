# SPDX-License-Identifier: Apache-2.0
"""Random catalogs one after another on real hosts, each applied and looked at.

    python -m tests.fleet.changes.random_catalogs [--number 50] [--seed 1] [--hosts 6] [--from STEP]

Each step edits the catalog or the inventory (scale, rename, delete, add, arguments, rollout, spread, memory, priority,
cordon, drain), and in between somebody stops, edits or removes units, kills engines or reboots hosts. After each apply
the hosts run exactly what is placed, the gateway names exactly what runs, every service answers, and a second apply
changes nothing. Prints a line a step; a failure names the seed and the step, and `--from` begins there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from itertools import dropwhile
from pathlib import Path

from tests.fleet.changes.edits import story
from tests.fleet.changes.fleet import ChangedFleet
from tests.fleet.changes.sequence import go_through
from tests.fleet.lab.hosts import Lab
from tests.fleet.lab.obstacles import obstacles


def say(line: str) -> None:
    """One line of the result."""
    print(line, flush=True)  # noqa: T201 - its result


def main() -> int:
    """0 when every step went well, 1 when one did not, 2 where no lab can run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=50, help="steps (50)")
    parser.add_argument("--seed", type=int, default=1, help="of the edits (1)")
    parser.add_argument("--hosts", type=int, default=6, help="hosts (6)")
    parser.add_argument("--from", type=int, default=1, dest="first", metavar="STEP", help="step to begin with (1)")
    asked = parser.parse_args()
    if found := obstacles():
        say("; ".join(found))
        return 2
    begun = time.monotonic()
    with Lab(asked.hosts) as lab, tempfile.TemporaryDirectory() as folder:
        fleet = ChangedFleet(lab, Path(folder, "fleet"))
        fleet.commands.folder.mkdir()
        fleet.prepare(Path(folder))
        say(f"seed {asked.seed}, {asked.hosts} hosts, prepared in {time.monotonic() - begun:.0f} s")
        steps = dropwhile(lambda one: one.number < asked.first, story(asked.seed, lab.hosts, asked.number))
        found = go_through(fleet, steps, say)
    for line in found:
        say(line)
    if found:
        say(f"again: --seed {asked.seed} --hosts {asked.hosts} --number {asked.number}, from the start or with --from")
    else:
        say(f"all well, {time.monotonic() - begun:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
