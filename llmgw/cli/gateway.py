# SPDX-License-Identifier: Apache-2.0
"""`llmgw gateway`: serves clients by a published bundle until it is told to stop (G1-G12)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import uvloop

from llmgw.console.pages import add_pages
from llmgw.gateway.processes.app import Settings, run
from llmgw.gateway.processes.logs import log_to_stderr

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def gateway(  # noqa: PLR0917 - options of a command
    bundle: Annotated[
        Path,
        typer.Option("--bundle", envvar="LLMGW_BUNDLE", help="The bundle that `llmgw apply` publishes to this host."),
    ] = Path("/var/lib/llmgw/bundle.json"),
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Where clients connect; port 0: any free one. [default: the catalog's]",
        ),
    ] = None,
    admin_listen: Annotated[
        str | None,
        typer.Option(
            "--admin-listen", metavar="HOST:PORT", help="Admin API, metrics and console. [default: the catalog's]"
        ),
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option("--ready-file", help="Written as JSON once the gateway serves: url, admin_url, pid.")
    ] = None,
    drain_timeout: Annotated[
        float, typer.Option("--drain-timeout", min=0, metavar="SECONDS", help="How long SIGTERM lets requests finish.")
    ] = 120.0,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, max=128, metavar="N", help="Processes that serve clients. [default: the catalog's]"
        ),
    ] = None,
) -> None:
    """Serve OpenAI clients by the routes in a bundle. SIGTERM drains, SIGHUP reloads."""
    log_to_stderr()
    uvloop.run(run(Settings(bundle, listen, admin_listen, ready_file, drain_timeout, workers), add_pages))
