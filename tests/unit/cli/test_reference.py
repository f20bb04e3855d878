# SPDX-License-Identifier: Apache-2.0
"""docs/reference/cli.md against the commands: it names every one of them, and no option that is not there."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from annotated_types import Ge, Le

from llmgw.catalog.schema.gateway import Gateway
from llmgw.cli import exits
from llmgw.cli.main import _COMMANDS

TEXT = (Path(__file__).parents[3] / "docs/reference/cli.md").read_text(encoding="utf-8")
LATER = ("plan", "diff", "apply", "history", "rollback", "reconcile")
"""Commands whose options have a table here; those of the others are told in sentences, or by --help."""


def options_of(name: str) -> set[str]:
    command = typer.main.get_command(importlib.import_module(_COMMANDS[name]).app)
    return set(words(command))


def words(command: Any) -> Iterator[str]:
    for one in command.params:
        yield from (*one.opts, *one.secondary_opts)
    for inner in getattr(command, "commands", {}).values():
        yield from words(inner)


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_is_named(name: str) -> None:
    assert f"`llmgw {name}" in TEXT


def test_a_gateway_takes_as_many_workers_as_the_catalog() -> None:
    command = typer.main.get_command(importlib.import_module(_COMMANDS["gateway"]).app)
    (option,) = (one for one in command.params if "--workers" in one.opts)
    catalogs = {limit for limit in Gateway.model_fields["workers"].metadata if isinstance(limit, Ge | Le)}
    assert catalogs == {Ge(option.min), Le(option.max)}  # type: ignore[attr-defined]


def test_no_option_is_named_that_is_not_there() -> None:
    known = set().union(*(options_of(name) for name in _COMMANDS)) | {"--help", "--version"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT)) <= known


@pytest.mark.parametrize("name", LATER)
def test_every_option_of_what_plans_and_changes_is_named(name: str) -> None:
    of_every_command = {"--inventory", "--facts", "--catalog", "--json", "--help"}
    long = {word for word in options_of(name) if word.startswith("--")} - of_every_command
    assert {word for word in long if word not in TEXT} == set()


@pytest.mark.parametrize("status", sorted(value for name, value in vars(exits).items() if name.isupper()))
def test_every_exit_status_is_told(status: int) -> None:
    assert f"\n| {status} | " in TEXT
