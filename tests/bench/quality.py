# SPDX-License-Identifier: Apache-2.0
"""How good plans are: replicas placed and moves made beside the optimum, over many random small fleets.

    python -m tests.bench.quality [--fleets 3000] [--first 0]

The optimum is CP-SAT's (`tests/properties/oracle.py`); the fleets are those of the test of the same bounds, and more.
Prints one JSON line a priority and one for moves, and the seeds of the fleets that have a better placement.
"""

from __future__ import annotations

import argparse
import json
import sys

from tests.properties.placement_cases import seeded_case
from tests.properties.quality import MORE_MOVES, SHORT_OF_PLACES, measure


def say(**row: object) -> None:
    """One line of the result."""
    print(json.dumps(row), flush=True)  # noqa: T201 - its result


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fleets", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first fleet")
    options = parser.parse_args()
    figures = measure(seeded_case(seed) for seed in range(options.first, options.first + options.fleets))
    for priority in sorted(figures.possible, reverse=True):
        say(
            measured="placed",
            priority=priority,
            placed=figures.placed[priority],
            optimum=figures.possible[priority],
            shortfall=round(figures.shortfall(priority), 5),
            goal=SHORT_OF_PLACES,
        )
    say(
        measured="moves",
        forced=figures.had_to_leave,
        others=figures.disturbed,
        lower_bound=figures.least,
        others_where_as_many_are_placed=figures.disturbed_alike,
        lower_bound_there=figures.least_alike,
        excess=round(figures.excess(), 5),
        goal=MORE_MOVES,
    )
    say(
        measured="fleets",
        fleets=figures.fleets,
        better_placement_exists=[options.first + at for at in figures.short],
        impossible=[options.first + at for at in figures.impossible],
    )
    print(*figures.lines(), sep="\n", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main()
