# SPDX-License-Identifier: Apache-2.0
"""docs/reference/engines.md says of floors and engines what the tables say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from llmgw.capability.engines import ENGINES

REFERENCE = Path(__file__).parents[3] / "docs/reference/engines.md"
WORDS = re.compile(r"`([^`]+)`")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table whose heading begins so."""
    text = REFERENCE.read_text(encoding="utf-8")
    table = text[text.index(heading) :].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


@pytest.mark.parametrize(
    ("heading", "kind"), [("| engine | `quantization` |", "quantization"), ("| engine | `kv_cache_dtype`", "kv_cache")]
)
def test_the_reference_has_every_floor(heading: str, kind: str) -> None:
    written = {
        (WORDS.findall(engine)[0], method, fast, slow or None)
        for engine, methods, fast, slow in rows(heading)
        for method in WORDS.findall(methods)
    }
    tables = {name: getattr(can, kind) for name, can in ENGINES.items()}
    assert written == {
        (name, method, floor.fast, floor.slow) for name, floors in tables.items() for method, floor in floors.items()
    }


def test_the_reference_says_what_each_engine_can_do() -> None:
    for engine, cut, copies, nodes, cpu, ignored in rows("| engine | cuts"):
        can = ENGINES[WORDS.findall(engine)[0]]
        assert ("pipeline" in cut) is can.pipeline_parallel
        assert ("experts" in cut) is can.expert_parallel
        assert (copies != "no") is can.data_parallel
        assert (nodes == "several") is can.multi_node
        assert cpu.startswith("yes") is can.cpu
        assert tuple(WORDS.findall(ignored)) == can.ignored
    assert len(rows("| engine | cuts")) == len(ENGINES)


def test_the_reference_says_which_versions_are_taken() -> None:
    written = {WORDS.findall(engine)[0]: cells for engine, *cells in rows("| engine | oldest")}
    assert written.keys() == {name for name, can in ENGINES.items() if can.release is not None}
    for name, (oldest, with_devices, newest, cuda) in written.items():
        release = ENGINES[name].release
        assert release is not None
        assert release.since is not None
        assert oldest == dotted(release.since)
        assert with_devices == dotted(release.devices_since or release.since)
        assert newest == dotted(release.newest)
        (_, first), (since, second) = ENGINES[name].cuda
        assert cuda == f"{first}; {second} from {dotted(since)} on"


def dotted(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))
