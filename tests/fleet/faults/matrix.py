# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.fleet.faults.matrix`: every step of a rollout x every fault, on real hosts; prints the matrix.

`--only STEP/FAULT` narrows, either may be empty or the beginning of a name; it may be given several times. Logs of what
failed are kept in --logs. The exit status is 1 when a cell has a problem.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.fleet.faults.cells import Cell, MissedError, run_cell
from tests.fleet.faults.injection import FAULTS, Fault
from tests.fleet.faults.site import FaultSite
from tests.fleet.faults.steps import STEPS, Step
from tests.fleet.lab.hosts import Lab

HOSTS = 4


def chosen(only: list[str]) -> list[tuple[Step, Fault]]:
    """The cells that were asked for, in that order; else all, row by row."""
    cells = [(step, fault) for step in STEPS for fault in FAULTS if fault.name in (step.faults or (fault.name,))]
    found: dict[tuple[str, str], tuple[Step, Fault]] = {}
    for row, _slash, column in (one.partition("/") for one in only or ["/"]):
        for step, fault in cells:
            if step.name.startswith(row) and fault.name.startswith(column):
                found.setdefault((step.name, fault.name), (step, fault))
    return list(found.values())


def told(cell: Cell) -> str:
    """One cell in a few words: failed and allowed requests, fewest available and how many must be, seconds to converge
    and those of the run that met the fault.
    """
    facts = cell.facts
    verdict = "ok" if not cell.problems else "FAILED"
    return (
        f"{verdict} {len(facts.failures)}/{facts.allowed} failed, {facts.available}/{facts.floor} up, "
        f"{cell.run_s:.0f} + {cell.converge_s:.0f} s"
    )


def table(results: dict[tuple[str, str], str]) -> str:
    """The matrix as a Markdown table, faults as rows: there are more of them."""
    steps = [step.name for step in STEPS if any(row == step.name for row, _column in results)]
    lines = [f"| fault | {' | '.join(steps)} |", f"|---{'|---' * len(steps)}|"]
    for fault in FAULTS:
        cells = [results.get((step, fault.name), "") for step in steps]
        if any(cells):
            lines.append(f"| {fault.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Runs the cells; returns the exit status."""
    parser = argparse.ArgumentParser(prog="make fault-matrix", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="STEP/FAULT")
    parser.add_argument("--logs", type=Path, default=None)
    options = parser.parse_args()
    logs = options.logs or Path(tempfile.mkdtemp(prefix="llmgw-faults-"))
    cells = chosen(options.only)
    results: dict[tuple[str, str], str] = {}
    problems = 0
    with Lab(HOSTS) as lab:
        site = FaultSite(lab, _made(logs / "fleet"))
        site.prepare(_made(logs / "wheel"))
        for number, (step, fault) in enumerate(cells, 1):
            began = time.monotonic()
            folder = _made(logs / f"{step.name}-{fault.name}".replace(" ", "-"))
            try:
                cell = run_cell(site, step, fault, folder)
                results[step.name, fault.name], found = told(cell), cell.problems
            except MissedError as error:
                results[step.name, fault.name], found = "missed", (str(error),)
            except Exception:  # noqa: BLE001 - one cell must not cost the others
                results[step.name, fault.name], found = "BROKEN", (traceback.format_exc(),)
            problems += bool(found)
            seconds = time.monotonic() - began
            _say(
                f"{number}/{len(cells)} {step.name} x {fault.name}: {results[step.name, fault.name]} ({seconds:.0f} s)"
            )
            for one in found:
                _say("    " + one.replace("\n", "\n    "))
            if found:
                site.recover()
    _say("\n" + table(results))
    _say(f"\n{len(cells) - problems} of {len(cells)} cells as they should be; logs: {logs}")
    return 1 if problems else 0


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - its result


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())
