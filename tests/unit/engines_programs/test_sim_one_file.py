# SPDX-License-Identifier: Apache-2.0
"""The single file that nodes get is the same program as the package it is made of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jinja2
import pytest

from tests.unit.engines_programs.programs import FILES, SIM, Program


@pytest.fixture
def one_file(tmp_path: Path) -> Path:
    """What the role renders, made as Ansible makes it."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)  # noqa: S701
    environment.filters["to_json"] = json.dumps
    template = environment.from_string((FILES.parent / "templates/llmgw-sim.j2").read_text())
    sources = {module.stem: module.read_text() for module in sorted(SIM.glob("*.py"))}
    program = tmp_path / "bin/llmgw-sim"
    program.parent.mkdir()
    program.write_text(template.render(engine_sim_sources=sources))
    return program


def test_one_file_serves_like_the_package(start: Callable[..., Program], one_file: Path) -> None:
    sim = start(one_file, "--model", "m", "--ttft-ms", "1", "--itl-ms", "1").ready()
    status, answer = sim.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}]})
    assert status == 200
    assert answer["usage"]["completion_tokens"] == 24
    assert sim.ask("POST", "/v1/chat/completions", {"messages": []})[0] == 400
    sim.terminate()
    assert sim.exit_status() == 0


def test_one_file_needs_nothing_beside_it_and_leaves_nothing(start: Callable[..., Program], one_file: Path) -> None:
    sim = start(one_file, "--model", "m", "--max-model-len", "99", "--kv-tokens", "16")
    assert sim.exit_status() == 2
    assert "does not fit" in "".join(sim.log)
    assert [entry.name for entry in one_file.parent.iterdir()] == ["llmgw-sim"]
