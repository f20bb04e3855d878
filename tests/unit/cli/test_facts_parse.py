# SPDX-License-Identifier: Apache-2.0
"""`llmgw facts parse`: what llmgw makes of a tool's output."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from llmgw.cli.facts_parse import decoded, reading_lines
from llmgw.nodekit import TEXT_KINDS, read_text
from tests.support.fleet_directory import Called
from tests.support.seed_texts import SEEDS

Call = Callable[..., Called]
MEMINFO = SEEDS["meminfo"][0]


def saved(folder: Path, content: bytes | str) -> Path:
    path = folder / "said.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("kind", TEXT_KINDS)
def test_every_kind_is_read_from_a_file_as_json_at_the_top_level(llmgw: Call, tmp_path: Path, kind: str) -> None:
    text = SEEDS[kind][0]
    called = llmgw("facts", "parse", kind, saved(tmp_path, text), "--json")
    assert (called.status, called.err) == (0, "")
    document = json.loads(called.out)
    assert document.pop("format_version") == 1
    assert document == json.loads(json.dumps(read_text(kind, text)))


@pytest.mark.parametrize("kind", TEXT_KINDS)
def test_every_kind_is_shown_to_people(llmgw: Call, tmp_path: Path, kind: str) -> None:
    called = llmgw("facts", "parse", kind, saved(tmp_path, SEEDS[kind][0]))
    assert (called.status, called.err) == (0, "")
    lines = called.out.splitlines()
    assert all(":" in line or line.lstrip().startswith("- ") for line in lines)
    assert "{" not in called.out


def test_a_reading_is_indented_and_the_unknown_is_a_dash() -> None:
    reading = {
        "state": "UP",
        "major": None,
        "ready": [0, 1],
        "none": [],
        "empty": {},
        "ok": True,
        "off": False,
        "zero": 0,
        "pairs": [[0, 1, "NV18"], [0, 2, "SYS"]],
        "legend": {"NIC0": "mlx5_0", "inner": {"a": None}},
        "gpus": [{"index": 0, "mig": [{"gi": 1}, {}]}, {"index": 1, "mig": []}],
    }
    assert list(reading_lines(reading)) == [
        "state: UP",
        "major: -",
        "ready: 0, 1",
        "none: none",
        "empty: none",
        "ok: yes",
        "off: no",
        "zero: 0",
        "pairs:",
        "  - 0, 1, NV18",
        "  - 0, 2, SYS",
        "legend:",
        "  NIC0: mlx5_0",
        "  inner:",
        "    a: -",
        "gpus:",
        "  - index: 0",
        "    mig:",
        "      - gi: 1",
        "      - -",
        "  - index: 1",
        "    mig: none",
    ]


def test_standard_input_is_a_dash(llmgw: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(MEMINFO.encode())))
    called = llmgw("facts", "parse", "meminfo", "-", "--json")
    assert json.loads(called.out)["mem_total_kb"] == 528000000
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    called = llmgw("facts", "parse", "meminfo", "-")
    assert called.status == 1
    assert called.err.startswith("standard input: ")


@pytest.mark.parametrize(
    "content",
    [
        MEMINFO.encode(),
        b"\xef\xbb\xbf" + MEMINFO.encode(),
        MEMINFO.encode("utf-16"),
        b"\xfe\xff" + MEMINFO.encode("utf-16-be"),
        MEMINFO.replace("\n", "\r\n").encode(),
        MEMINFO.encode() + b"\xff\xfe broken\n",
    ],
)
def test_a_text_may_come_as_editors_and_other_systems_save_it(llmgw: Call, tmp_path: Path, content: bytes) -> None:
    called = llmgw("facts", "parse", "meminfo", saved(tmp_path, content), "--json")
    assert called.status == 0
    assert json.loads(called.out)["mem_available_kb"] == 500000000
    assert decoded(b"\xff\xfe\x41") == "\ufffd"


def test_an_unknown_kind_is_wrong_usage_that_names_the_kinds_and_the_nearest(llmgw: Call, tmp_path: Path) -> None:
    called = llmgw("facts", "parse", "topo", saved(tmp_path, ""))
    assert (called.status, called.out) == (64, "")
    assert "no kind topo; did you mean topo-m? There are nvidia-smi-xml, " in called.err
    for kind in TEXT_KINDS:
        assert kind in called.err
    assert "did you mean smi-L?" in llmgw("facts", "parse", "SMI-l", "x").err
    assert "no kind zzzzzz. There are nvidia-smi-xml, " in llmgw("facts", "parse", "zzzzzz", "x").err
    assert llmgw("facts", "parse").status == 64
    assert llmgw("facts", "parse", "topo-m").status == 64


def test_an_unreadable_text_says_what_was_looked_for_and_what_it_looks_like(llmgw: Call, tmp_path: Path) -> None:
    path = saved(tmp_path, MEMINFO)
    called = llmgw("facts", "parse", "topo-m", path)
    assert (called.status, called.out) == (1, "")
    assert called.err.startswith(f"{path}: ")
    assert called.err.endswith(
        f" [unreadable-text]\n    fix: it looks like meminfo: llmgw facts parse meminfo {path}\n"
    )
    called = llmgw("facts", "parse", "imex", saved(tmp_path, "what a day\n"))
    assert called.status == 1
    assert "fix: check that this is the whole output, and of kind imex" in called.err


@pytest.mark.parametrize("kind", [kind for kind in TEXT_KINDS if kind not in {"error", "smi-csv"}])
def test_what_a_text_looks_like_is_what_it_is(llmgw: Call, tmp_path: Path, kind: str) -> None:
    wrong = "meminfo" if kind != "meminfo" else "topo-m"
    called = llmgw("facts", "parse", wrong, saved(tmp_path, SEEDS[kind][0]))
    assert called.status == 1
    looks_like = re.search("it looks like (.+?): ", called.err)
    assert looks_like is not None
    assert kind in looks_like[1].split(" or ")


def test_a_file_that_cannot_be_read_is_told(llmgw: Call, tmp_path: Path) -> None:
    called = llmgw("facts", "parse", "topo-m", tmp_path / "none")
    assert (called.status, called.out) == (1, "")
    assert called.err == (
        f"{tmp_path}/none: the text cannot be read: no such file or directory [text-file]\n"
        "    fix: name a file that holds what the tool printed, or `-` for standard input\n"
    )
    assert "is a directory" in llmgw("facts", "parse", "topo-m", tmp_path).err


def test_what_a_text_holds_steers_no_terminal(llmgw: Call, tmp_path: Path) -> None:
    called = llmgw("facts", "parse", "smi-csv", saved(tmp_path, "name, uuid\n\x1b[2J, x\n"))
    assert called.status == 0
    assert "\x1b" not in called.out
