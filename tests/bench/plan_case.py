# SPDX-License-Identifier: Apache-2.0
"""One case of `bench-plan` in a process of its own: reads a fleet from disk, decides, explains, prints one JSON line.

python -m tests.bench.plan_case FOLDER [--lose NODE] [--why SERVICE] [--keep FOLDER] [--profile]
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import time
from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmgw.apply.inputs import Inputs, inputs_of
from llmgw.catalog.load import load_catalog
from llmgw.cli.main import COLLECT_AFTER
from llmgw.decide import Decision, decide
from llmgw.fleet.hosts import Host
from llmgw.model.plan import ActionKind
from llmgw.plan.text import plan_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOKED_AT_S = 30.0
"""How long after they were collected the facts are planned with."""


@dataclass
class Watch:
    """Seconds on the wall and on the processor, by what they went into."""

    wall: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def on(self, name: str) -> Iterator[None]:
        """Count what happens inside."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall[name] = time.perf_counter() - wall
        self.cpu[name] = time.process_time() - cpu


def read(folder: Path, watch: Watch, lost: tuple[str, ...]) -> Inputs:
    """The inputs as `llmgw plan` reads them; the hosts lie there as Ansible has told them."""
    with watch.on("catalog"):
        catalog = load_catalog(folder / "catalog.yaml")
    with watch.on("read"):
        told = json.loads((folder / "hosts.json").read_text(encoding="utf-8"))
        hosts = tuple(Host(**one) for one in told["hosts"])
        return inputs_of(catalog, hosts, folder / "facts", told["now"] + LOOKED_AT_S, lost)


def planned(inputs: Inputs, lose: str | None) -> tuple[Decision, dict[str, Any]]:
    """The decision with its text, and what it comes to."""
    decision = decide(inputs.catalog, inputs.fleet)
    lines = plan_lines(decision.plan)
    row: dict[str, Any] = {
        "placed": len(decision.placement.assignments),
        "unplaced": len(decision.placement.unplaced),
        "moves": decision.plan.moves,
        "lines": len(lines),
    }
    if lose is not None:
        lost = inputs.fleet.node(lose)
        units = (lost.facts.units or ()) if lost is not None and lost.facts else ()
        row["on_lost_node"] = len({unit.replica for unit in units})
        row["changed_elsewhere"] = sum(
            action.kind not in (ActionKind.KEEP, ActionKind.CREATE) and lose not in (*action.from_nodes, *action.nodes)
            for action in decision.plan.actions
        )
    return decision, row


def asked(inputs: Inputs, service: str) -> dict[str, Any]:
    """The answer to `plan --why`, with its text, and what it comes to."""
    from llmgw.cli.why_text import why_lines  # noqa: PLC0415 - imported by the one command that needs it
    from llmgw.placement.assign import place  # noqa: PLC0415
    from llmgw.placement.why.explain import explain  # noqa: PLC0415

    wanted = next(one for one in inputs.catalog.services if one.name == service)
    outcome = place(inputs.catalog, inputs.fleet, reasons=False)
    answer = explain(inputs.catalog, outcome, service)
    lines = why_lines(answer, wanted.profiles, 100)
    return {
        "placed": len(outcome.placement.assignments),
        "unplaced": len(outcome.placement.unplaced),
        "lines": len(lines),
        "reasons": sum(len(node.failing) for node in answer.nodes),
        "relaxations": len(answer.relaxations),
    }


def keep(decision: Decision, folder: Path, target: Path) -> None:
    """Write the facts as they are once the plan was carried out. Imports here: no measured case needs them."""
    from tests.support.world import observe  # noqa: PLC0415

    units: dict[str, list[dict[str, Any]]] = {}
    for unit in decision.units:
        units.setdefault(unit.node, []).append(asdict(observe(unit)))
    target.mkdir(parents=True, exist_ok=True)
    for source in sorted((folder / "facts").glob("*.json")):
        text = source.read_text(encoding="utf-8")
        here = json.dumps(units.get(source.stem, []), indent=1)
        (target / source.name).write_text(text.replace('"units": []', f'"units": {here}'), encoding="utf-8")


def busiest(decision: Decision) -> str:
    """The node with the most replicas, the first of equals."""
    count = Counter(member.node for one in decision.placement.assignments for member in one.members)
    return min(count, key=lambda node: (-count[node], node))


@contextmanager
def profiled() -> Iterator[None]:
    """Say on stderr where the time inside goes."""
    import cProfile  # noqa: PLC0415
    import pstats  # noqa: PLC0415

    with cProfile.Profile() as profiler:
        yield
    told = pstats.Stats(profiler, stream=sys.stderr)
    for order in ("cumulative", "tottime"):
        told.sort_stats(order).print_stats(35)


def main() -> None:
    """Measures one case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lose")
    parser.add_argument("--why")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    gc.set_threshold(*COLLECT_AFTER)
    watch = Watch()
    inputs = read(options.folder, watch, (options.lose,) if options.lose else ())
    with watch.on("decide"), profiled() if options.profile else nullcontext():
        decision, row = (None, asked(inputs, options.why)) if options.why else planned(inputs, options.lose)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    row |= {f"{name}_seconds": value for name, value in watch.wall.items()}
    row |= {"decide_cpu_seconds": watch.cpu["decide"]}
    row |= {"cpu_seconds": usage.ru_utime + usage.ru_stime - watch.cpu["read"], "rss_mb": usage.ru_maxrss // 1024}
    if options.keep and decision is not None:
        keep(decision, options.folder, options.keep)
        row["busiest"] = busiest(decision)
    print(json.dumps(row))  # noqa: T201 - its result


if __name__ == "__main__":
    main()
