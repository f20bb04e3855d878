# SPDX-License-Identifier: Apache-2.0
"""What a plan costs: time and memory of deciding for fleets up to 10,000 nodes, explanations included.

    python -m tests.bench.plan [--only small,large,inventory,table] [--rounds 3] [--profile CASE]

Each case runs in a process of its own, over fact files, hosts and a catalog that were written to a temporary folder
before (`plan_fleet`, `plan_catalog`), through the reader that `llmgw plan` uses; only what `ansible-inventory` says is
read from a file, and its own time is a line of its own. Prints one JSON line a case:

    seconds          from the start of the interpreter to its end, less `read_seconds`: what `goal_s` is about
    decide_seconds   of these, deciding and writing the plan as text, with a reason for everything that has no place
    catalog_seconds  of these, reading and checking the catalog
    start_seconds    of these, starting Python, importing what a plan needs, and ending
    read_seconds     reading the fact files and judging fabrics, domains and ages
    cpu_seconds, decide_cpu_seconds   processor time of what `seconds` and `decide_seconds` count
    rss_mb           the most memory that it held

Times are medians over the rounds, and those of a machine that does other work show what it had left.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from llmgw.fleet.inventory import read_inventory
from tests.bench import plan_catalog, plan_fleet

PROJECT = Path(__file__).parents[2]
TIMEOUT_S = 1800
TABLE_NODES = (100, 300, 1000, 3000)
TABLE_REPLICAS = (400, 1200, 4000, 12000)
TIMES = (
    "seconds",
    "decide_seconds",
    "read_seconds",
    "catalog_seconds",
    "start_seconds",
    "cpu_seconds",
    "decide_cpu_seconds",
)
DECIDED = ("placed", "unplaced", "moves", "on_lost_node", "changed_elsewhere", "reasons", "relaxations")
"""What the same inputs must always give the same of."""


@dataclass(frozen=True)
class Case:
    """One measurement. `after`: when a first plan was carried out; `lost`: then the node with most replicas is lost.
    `why`: it is asked about a service that fits nowhere, or about the first one, which fits.
    """

    name: str
    nodes: int
    replicas: int
    goal_s: float | None = None
    after: bool = False
    lost: bool = False
    why: str | None = None
    rounds: int | None = None


CASES = (
    Case("small", 100, 400, 0.5),
    Case("large", 1000, 4000, 3.0),
    Case("nothing-to-do", 1000, 4000, after=True),
    Case("lost", 1000, 4000, 0.5, after=True, lost=True),
    Case("why-unplaced", 1000, 4000, 1.0, after=True, why=plan_catalog.unplaceable(4000)),
    Case("why-placed", 1000, 4000, 1.0, after=True, why="s0"),
    Case("huge", 10_000, 40_000, rounds=1),
)


class Fleets:
    """Fleets on disk, each written once."""

    def __init__(self, folder: Path, engine: str) -> None:
        self._folder = folder
        self._engine = engine
        self.cards: dict[int, int] = {}

    def of(self, nodes: int, replicas: int) -> Path:
        """The folder of a fleet on which nothing runs, with a catalog for so many replicas."""
        facts, folder = self._folder / f"facts-{nodes}", self._folder / f"{nodes}-{replicas}"
        if nodes not in self.cards:
            self.cards[nodes] = plan_fleet.write_facts(facts, nodes)
        if not folder.exists():
            folder.mkdir()
            (folder / "facts").symlink_to(facts)
            told = {"now": plan_fleet.NOW, "hosts": [asdict(host) for host in plan_fleet.hosts(nodes)]}
            (folder / "hosts.json").write_text(json.dumps(told), encoding="utf-8")
            catalog = plan_catalog.catalog_text(replicas, self._engine)
            (folder / "catalog.yaml").write_text(catalog, encoding="utf-8")
        return folder

    def after(self, nodes: int, replicas: int) -> tuple[Path, str]:
        """The folder of the same fleet once its plan was carried out, and the node with most replicas."""
        bare, folder = self.of(nodes, replicas), self._folder / f"{nodes}-{replicas}-after"
        note = folder / "busiest"
        if not folder.exists():
            folder.mkdir()
            for name in ("hosts.json", "catalog.yaml"):
                (folder / name).symlink_to(bare / name)
            note.write_text(process([str(bare), "--keep", str(folder / "facts")])["busiest"], encoding="utf-8")
        return folder, note.read_text(encoding="utf-8")


def process(words: list[str]) -> dict[str, Any]:
    """What one process of `plan_case` measured, with the wall time of the whole of it."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "tests.bench.plan_case", *words]
    done = subprocess.run(command, cwd=PROJECT, check=False, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S)
    wall = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")
    row: dict[str, Any] = json.loads(done.stdout)
    rest = wall - row["read_seconds"]
    return row | {"seconds": rest, "start_seconds": rest - row["decide_seconds"] - row["catalog_seconds"]}


def measure(case: Case, fleets: Fleets, rounds: int, more: Iterable[str] = ()) -> dict[str, Any]:
    """The line of one case."""
    folder, busiest = fleets.of(case.nodes, case.replicas), ""
    if case.after:
        folder, busiest = fleets.after(case.nodes, case.replicas)
    words = [str(folder), *more]
    words += ["--lose", busiest] if case.lost else []
    words += ["--why", case.why] if case.why else []
    rows = [process(words) for _round in range(case.rounds or rounds)]
    if any(row.get(name) != rows[0].get(name) for row in rows for name in DECIDED):
        raise SystemExit(f"case {case.name}: the same inputs were decided differently")
    medians = {name: round(statistics.median(row[name] for row in rows), 3) for name in TIMES}
    line = {"case": case.name, "nodes": case.nodes, "cards": fleets.cards[case.nodes], "replicas": case.replicas}
    line |= {"goal_s": case.goal_s} if case.goal_s is not None else {}
    line |= medians | {"rss_mb": max(row["rss_mb"] for row in rows)}
    return line | {name: rows[0][name] for name in DECIDED if name in rows[0]}


def inventory(fleets: Fleets, nodes: int) -> dict[str, Any]:
    """How long Ansible takes to tell the hosts of a fleet."""
    folder = fleets.of(nodes, 400)
    told = json.loads((folder / "hosts.json").read_text(encoding="utf-8"))["hosts"]
    groups = {
        group: {"hosts": {host["name"]: host["variables"] for host in told if host[flag]}}
        for group, flag in (("fleet", "node"), ("gateway", "gateway"))
    }
    path = folder / "hosts.yml"
    path.write_text(json.dumps({"all": {"children": groups}}), encoding="utf-8")
    begun = time.perf_counter()
    found = read_inventory(path)
    return {"case": "inventory", "nodes": nodes, "hosts": len(found), "seconds": round(time.perf_counter() - begun, 3)}


def table(rows: list[dict[str, Any]]) -> str:
    """Decide seconds over nodes and replicas, as a table for people."""
    by_size = {(row["nodes"], row["replicas"]): row for row in rows}
    lines = ["deciding, in seconds (and how many have a place), by nodes and replicas:"]
    lines.append(f"{'nodes':>8}" + "".join(f"{replicas:>20}" for replicas in TABLE_REPLICAS))
    for nodes in TABLE_NODES:
        cells = [by_size[nodes, replicas] for replicas in TABLE_REPLICAS]
        lines.append(f"{nodes:>8}" + "".join(f"{one['decide_seconds']:>11.2f} ({one['placed']:>6})" for one in cells))
    return "\n".join(lines)


def say(row: dict[str, Any]) -> dict[str, Any]:
    """Print one line of the result; goals missed or met go to stderr for whoever watches."""
    print(json.dumps(row), flush=True)  # noqa: T201 - its result
    if "goal_s" in row:
        verdict = "within" if row["seconds"] <= row["goal_s"] else "MISSES"
        took = f"{row['seconds']:.2f} s ({row['cpu_seconds']:.2f} s of processor time)"
        print(f"  {row['case']}: {took}, {verdict} the goal of {row['goal_s']} s", file=sys.stderr)  # noqa: T201
    return row


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [case.name for case in CASES] + ["inventory", "table"]
    parser.add_argument("--only", default=",".join(every), help="cases, comma-separated: %(default)s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", metavar="CASE", help="where the time of one case goes, and nothing else")
    parser.add_argument("--engine", default="vllm", help="engine of the catalog")
    options = parser.parse_args()
    wanted = options.only.split(",")
    if unknown := set(wanted) - set(every):
        parser.error(f"there is no case {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="llmgw-bench-plan-") as name:
        fleets = Fleets(Path(name), options.engine)
        if options.profile:
            (case,) = [case for case in CASES if case.name == options.profile] or parser.error("there is no such case")
            say(measure(case, fleets, 1, ["--profile"]))
            return
        for case in CASES:
            if case.name in wanted:
                say(measure(case, fleets, options.rounds))
        if "inventory" in wanted:
            say(inventory(fleets, 1000))
        if "table" in wanted:
            cells = [Case("table", nodes, replicas) for nodes in TABLE_NODES for replicas in TABLE_REPLICAS]
            print(table([say(measure(case, fleets, 1)) for case in cells]), file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main()
