# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share: where the fleet is described, and which nodes count as lost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Inventory = Annotated[
    Path,
    typer.Option(
        "--inventory",
        "-i",
        help="Ansible inventory of the fleet, or the directory that holds its hosts.yml. [env var: LLMGW_INVENTORY]",
    ),
]
InventoryOfAll = Annotated[
    Path | None,
    typer.Option("--inventory", "-i", envvar="LLMGW_INVENTORY", help="The same for every command.", show_default=False),
]
Catalog = Annotated[
    Path | None,
    typer.Option(
        "--catalog",
        envvar="LLMGW_CATALOG",
        help="Catalog file. [default: catalog.yaml beside the inventory]",
        show_default=False,
    ),
]
Facts = Annotated[
    Path | None,
    typer.Option(
        "--facts", envvar="LLMGW_FACTS", help="Facts cache. [default: facts/ beside the inventory]", show_default=False
    ),
]
History = Annotated[
    Path | None,
    typer.Option(
        "--history",
        envvar="LLMGW_HISTORY",
        help="History of applies. [default: history/ beside the facts cache]",
        show_default=False,
    ),
]
Lost = Annotated[
    list[str] | None,
    typer.Option("--lost", metavar="NODE", help="Count this node as lost in this run; may be given several times."),
]
AllowMassLoss = Annotated[
    bool, typer.Option("--allow-mass-loss", help="Move and stop replicas even when many nodes are lost at once.")
]
Limit = Annotated[
    str | None,
    typer.Option("--limit", "-l", metavar="PATTERN", help="Touch only these hosts; every other one is left as it is."),
]
# Text: a path would be looked at here and now, and what is looked at may hang.
ModelDirs = Annotated[
    list[str] | None,
    typer.Option("--model-dir", metavar="DIR", help="Directory to look for weights in; may be given several times."),
]
Scope = Annotated[
    str | None,
    typer.Option(metavar="SCOPE", help="systemd manager: system or user. [default: system]", show_default=False),
]
Gather = Annotated[
    str | None,
    typer.Option(
        metavar="PARTS",
        help="What to read, comma-separated: all, hardware, volatile, or parts such as gpus or storage; !PART leaves"
        " one out. The rest stays as stored. [default: all]",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

DEFAULT_INVENTORY = Path("inventory")


def scope(given: str | None) -> str:
    """The scope of a machine's units. Raises BadParameter."""
    if given not in {None, "system", "user"}:
        raise typer.BadParameter(f"there is no scope {given}: it is system or user")
    return given or "system"


def gather(given: str | None) -> list[str]:
    """The words of `--gather`. Raises BadParameter for one that names nothing, and where nothing would be read."""
    from llmgw.nodekit import parts

    words = [word.strip() for word in ("all" if given is None else given).split(",") if word.strip()]
    if not words:
        raise typer.BadParameter("it is empty: name what to read, such as volatile, or leave --gather out to read all")
    try:
        parts.chosen(words)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return words


def words(paths: list[str] | None) -> list[str] | None:
    """Paths as discovery takes them."""
    return None if paths is None else [str(Path(path)) for path in paths]
