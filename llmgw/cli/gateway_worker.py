# SPDX-License-Identifier: Apache-2.0
"""`python -m llmgw.cli.gateway_worker`: one worker of a gateway. `llmgw gateway` starts it, nobody else does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from llmgw.errors import LlmgwError
from llmgw.gateway.processes.logs import log_to_stderr
from llmgw.gateway.processes.worker import Worker, WorkerSettings


def main(words: Sequence[str] | None = None) -> int:
    """The worker's whole life; its exit status."""
    settings = _read(words)
    log_to_stderr(worker=settings.number)
    try:
        uvloop.run(_run(settings))
    except LlmgwError as error:
        sys.stderr.write(f"worker {settings.number}: {error}\n")
        return 1
    return 0


async def _run(settings: WorkerSettings) -> None:
    await Worker(settings).run()


def _read(words: Sequence[str] | None) -> WorkerSettings:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, required=True)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--listeners", required=True, help="open sockets, as numbers with commas")
    parser.add_argument("--channel", type=int, required=True)
    parser.add_argument("--cells", type=int, required=True)
    parser.add_argument("--drain-timeout", type=float, required=True)
    parser.add_argument("--workers", type=int, required=True)
    given = parser.parse_args(words)
    return WorkerSettings(
        number=given.number,
        bundle=given.bundle,
        listeners=tuple(map(int, given.listeners.split(","))),
        channel=given.channel,
        cells=given.cells,
        drain_timeout_s=given.drain_timeout,
        workers=given.workers,
    )


if __name__ == "__main__":
    raise SystemExit(main())
