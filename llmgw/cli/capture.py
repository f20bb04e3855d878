# SPDX-License-Identifier: Apache-2.0
"""`llmgw capture`: what discovery reads on hosts, as archives that give the same facts anywhere (D16)."""

from __future__ import annotations

import json
import secrets
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from llmgw.apply.captures import Captures, capture_lines
from llmgw.apply.events import Progress, unexplained
from llmgw.apply.inputs import Paths, find_paths
from llmgw.apply.runner import Run, run_playbook
from llmgw.cli import exits, options
from llmgw.cli.style import printable
from llmgw.errors import LlmgwError
from llmgw.fleet.inventory import read_inventory
from llmgw.nodekit import capture_here, version

CAPTURE_FORMAT = 1
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def capture(
    host: Annotated[
        list[str] | None, typer.Argument(metavar="[HOST]...", help="Hosts to capture. [default: all]")
    ] = None,
    inventory: options.Inventory = options.DEFAULT_INVENTORY,
    limit: options.Limit = None,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Where captures go. [default: captures/TIME]"),
    ] = None,
    model_dir: options.ModelDirs = None,
    scope: options.Scope = None,
    here: Annotated[bool, typer.Option("--here", help="Capture this machine, without inventory and ssh.")] = False,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="Replace names of hosts and users, serial numbers, UUIDs and addresses."),
    ] = False,
    as_json: options.AsJson = False,
) -> int:
    """Keep what discovery reads on hosts, as archives. Look at one with `llmgw facts local --capture FILE`."""
    if here and (host or limit):
        raise typer.BadParameter("--here captures this machine alone: name no hosts")
    if not here and (model_dir or scope):
        raise typer.BadParameter("--model-dir and --scope are for --here; hosts have theirs in the inventory")
    if host and limit:
        raise typer.BadParameter("name hosts or give --limit, not both")
    folder = output or Path("captures") / time.strftime("%Y%m%d-%H%M%S")
    if here:
        document = _here(folder, options.scope(scope), options.words(model_dir), redact=redact)
        status = exits.OK
    else:
        status, document = _fleet(find_paths(inventory), folder, host, limit, redact=redact)
    if as_json:
        print(json.dumps({"format_version": CAPTURE_FORMAT, **document}, indent=2))
    else:
        print(printable("\n".join([*capture_lines(document), *_next(document)])))
    return status


def _here(folder: Path, scope: str, model_dirs: list[str] | None, *, redact: bool) -> dict[str, Any]:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / "this-machine.tar.gz"
        taken = capture_here(path, scope=scope, model_dirs=model_dirs, redact=redact)
    except OSError as error:
        why = f"the capture cannot be written: {(error.strerror or type(error).__name__).lower()}"
        raise LlmgwError("capture-file", why, where=str(folder), fix="name a directory of yours: --output") from error
    return {"captures": [{"host": "this machine", "file": str(path), **taken._asdict()}], "failed": []}


def _fleet(
    paths: Paths, folder: Path, hosts: list[str] | None, limit: str | None, *, redact: bool
) -> tuple[int, dict[str, Any]]:
    """Exit status, and what was captured; messages go to stderr as they come."""
    known = [host.name for host in read_inventory(paths.inventory)]
    unknown = next((host for host in hosts or () if host not in known), None)
    if unknown is not None:
        fix = f"it has {', '.join(sorted(known)) or 'no host'}"
        raise LlmgwError("unknown-host", f"the inventory has no host {unknown}", fix=fix)
    variables = {
        "llmgw_capture_dir": str(folder.resolve()),
        "llmgw_capture_redact": redact,
        "llmgw_capture_redact_key": secrets.token_hex(32) if redact else "",
        "llmgw_version": version(),
    }
    progress, captures = Progress(), Captures()

    def watch(event: dict[str, Any]) -> None:
        progress.feed(event)
        captures.feed(event)

    status = run_playbook(
        Run("llmgw.fleet.capture", paths, variables, limit=",".join(hosts) if hosts else limit), watch
    )
    for host, why in sorted(captures.failed.items()):
        print(printable(f"{host}  no capture: {why}"), file=sys.stderr)
    if not captures.failed:
        for line in unexplained(progress, status, changes=False):
            print(printable(line), file=sys.stderr)
    if status == exits.INTERRUPTED:
        return exits.INTERRUPTED, captures.document()
    return exits.ERROR if status or not captures.files else exits.OK, captures.document()


def _next(document: dict[str, Any]) -> list[str]:
    if not document["captures"]:
        return ["Nothing was captured."]
    return [f"next:  llmgw facts local --capture {document['captures'][0]['file']}"]
