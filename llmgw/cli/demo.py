# SPDX-License-Identifier: Apache-2.0
"""`llmgw demo`: the whole product on this machine, with a real model."""

from __future__ import annotations

from typing import Annotated

import typer

from llmgw.cli import exits

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def demo(
    *,
    once: Annotated[bool, typer.Option("--once", help="End after the answer and leave nothing behind.")] = False,
    question: Annotated[
        str, typer.Option(metavar="TEXT", help="What to ask the model.")
    ] = "In one sentence: what does a load balancer do?",
) -> int:
    """Run the whole product on this machine. Discovers it, places a small model, pushes its unit, serves it behind the
    gateway, and asks it one question.
    """
    from llmgw.demo.run import run

    run(once=once, question=question, say=lambda line: print(line, flush=True))
    return exits.OK
