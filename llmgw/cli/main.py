# SPDX-License-Identifier: Apache-2.0
"""`llmgw`: finds the command, and turns every way it can end into a message and an exit status."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from llmgw.cli import exits, options
from llmgw.cli.style import printable
from llmgw.errors import LlmgwError, LlmgwErrors

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMANDS = {
    "init": "llmgw.cli.init",
    "catalog": "llmgw.cli.catalog",
    "facts": "llmgw.cli.facts",
    "nodes": "llmgw.cli.nodes",
    "fit": "llmgw.cli.fit",
    "plan": "llmgw.cli.plan",
    "diff": "llmgw.cli.diff",
    "apply": "llmgw.cli.apply",
    "reconcile": "llmgw.cli.reconcile",
    "history": "llmgw.cli.history",
    "rollback": "llmgw.cli.rollback",
    "capture": "llmgw.cli.capture",
    "keys": "llmgw.cli.keys",
    "gateway": "llmgw.cli.gateway",
    "demo": "llmgw.cli.demo",
}

# typer carries its own click; these are the public names by which its exceptions can be told apart.
_UsageError: Any = typer.BadParameter.__mro__[1]
_ClickError: Any = typer.BadParameter.__mro__[2]


class _Lazy(TyperGroup):
    """Commands that are imported when they are called or described, so that `llmgw plan` does not pay for the
    gateway.
    """

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        command: Any = typer.main.get_command(importlib.import_module(_COMMANDS[cmd_name]).app)
        command.name = cmd_name
        return command


COLLECT_AFTER = (200_000, 50, 1000)
"""What is read of a thousand hosts stays until the end: looking through it again and again for garbage would take as
long as reading it.
"""
_OF_THE_PARSER = "Value error, "
"""What the library that reads enumerations puts before its sentences."""

app = typer.Typer(cls=_Lazy, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


def _version(*, asked: bool) -> None:
    if asked:
        from llmgw.nodekit import version

        print(version())
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    inventory: options.InventoryOfAll = None,
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=lambda asked: _version(asked=asked), is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """Run a fleet of LLM inference servers from a YAML catalog in git, with Ansible as its hands."""
    del version
    if inventory is not None:
        default = {"inventory": str(inventory)}
        ctx.default_map = dict.fromkeys(_COMMANDS, default) | {
            "facts": {"refresh": default, "show": default},
            "keys": {"create": default, "list": default, "revoke": default},
            "nodes": default | dict.fromkeys(("cordon", "uncordon", "drain", "undrain", "clear"), default),
        }


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command. Ends the process with one of the statuses in `exits`."""
    gc.set_threshold(*COLLECT_AFTER)
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # somebody closed it: what is said there is heard by nobody
            setattr(sys, stream, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - till the end
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit status of one call; messages go to stderr."""
    command: Any = typer.main.get_command(app)
    try:
        status = command.main(
            args=list(arguments) if arguments is not None else None, prog_name="llmgw", standalone_mode=False
        )
    except LlmgwErrors as errors:
        for error in errors.errors:
            _say(error)
        return exits.ERROR
    except LlmgwError as error:
        _say(error)
        return exits.ERROR
    except _UsageError as error:
        error.message = error.message.replace(_OF_THE_PARSER, "")
        error.show(sys.stderr)
        return exits.USAGE
    except _ClickError as error:
        error.show(sys.stderr)
        return exits.ERROR
    except (typer.Abort, KeyboardInterrupt):
        print("llmgw: interrupted", file=sys.stderr)
        return exits.INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return exits.ERROR
    except OSError as error:
        print(printable(f"llmgw: {error}"), file=sys.stderr)
        return exits.ERROR
    return status if isinstance(status, int) else exits.OK


def _say(error: LlmgwError) -> None:
    print(printable(f"llmgw: {error}" if error.where is None else error), file=sys.stderr)
