# SPDX-License-Identifier: Apache-2.0
"""What may be asked of `llmgw plan` at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from llmgw.cli.whatif_options import Given


@dataclass(frozen=True, slots=True)
class Asked:
    """The options that ask for another answer than the plan, and those that say what becomes of it."""

    given: Given
    why: str | None = None
    node: list[str] | None = None
    failures: bool = False
    failure_domain: list[str] | None = None
    as_json: bool = False
    markdown: bool = False
    out: Path | None = None


def refuse_combinations(asked: Asked) -> None:
    """Raises BadParameter for what cannot be answered together."""
    _refuse_questions(asked)
    other = asked.why is not None or asked.failures or asked.given.any
    if asked.markdown and asked.as_json:
        raise typer.BadParameter("ask for --markdown and --json one after the other")
    if asked.markdown and other:
        raise typer.BadParameter("--markdown shows the plan itself: leave --why, --failures and suppositions out")
    if asked.out is not None and other:
        raise typer.BadParameter("--out saves the plan itself: leave --why, --failures and suppositions out")


def _refuse_questions(asked: Asked) -> None:
    smallest = asked.given.smallest is not None
    if asked.node and asked.why is None:
        raise typer.BadParameter("--node goes with --why: name a service too")
    if smallest and asked.why is not None:
        raise typer.BadParameter("ask --smallest and --why one after the other")
    if asked.failure_domain and not asked.failures:
        raise typer.BadParameter("--failure-domain goes with --failures")
    if asked.failures and (smallest or asked.why is not None):
        raise typer.BadParameter("ask --failures, --why and --smallest one after the other")
