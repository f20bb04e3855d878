# SPDX-License-Identifier: Apache-2.0
"""The options of `llmgw plan` that suppose something, and their texts as they were given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

WithNodes = Annotated[
    list[str] | None,
    typer.Option(
        "--with-nodes",
        metavar="SPEC",
        help="What if there were more nodes: 4xh200x8 is 4 nodes of 8 h200, built like one of the fleet where there is"
        " one. May go on with ,fabric=NAME ,domain=NAME ,label=NAME:VALUE ,memory=GB ,weights=MODEL ,like=NODE.",
    ),
]
WithoutNode = Annotated[
    list[str] | None, typer.Option("--without-node", metavar="NODE", help="What if this node were not there.")
]
Drain = Annotated[list[str] | None, typer.Option("--drain", metavar="NODE", help="What if this node were drained.")]
Cordon = Annotated[list[str] | None, typer.Option("--cordon", metavar="NODE", help="What if this node were cordoned.")]
Uncordon = Annotated[
    list[str] | None,
    typer.Option("--uncordon", metavar="NODE", help="What if this node were neither cordoned nor drained."),
]
Scale = Annotated[
    list[str] | None,
    typer.Option(
        "--scale", metavar="SERVICE=N", help="What if this service, by its name or as clients call it, had N replicas."
    ),
]
SmallestKind = Annotated[
    str | None,
    typer.Option(
        "--smallest",
        metavar="KIND",
        help="How many more nodes of this kind are needed until everything fits: h200x8 is a node of 8 h200; goes on as"
        " --with-nodes does.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Given:
    """What was given to these options, not yet read; None where nothing was."""

    with_nodes: list[str] | None = None
    without: list[str] | None = None
    drain: list[str] | None = None
    cordon: list[str] | None = None
    uncordon: list[str] | None = None
    scale: list[str] | None = None
    smallest: str | None = None

    @property
    def any(self) -> bool:
        """Whether anything is supposed or looked for."""
        return self != Given()
