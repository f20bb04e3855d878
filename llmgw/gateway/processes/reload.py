# SPDX-License-Identifier: Apache-2.0
"""Follows the published bundle: takes a new one in whole, and keeps the last good one in force otherwise (G2, Q2)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from llmgw.errors import LlmgwError
from llmgw.gateway.table import Table
from llmgw.model.route import Bundle
from llmgw.routes.codec import load_bundle

POLL_S = 0.25

Stamp = tuple[int, int, int]
"""Inode, size and change time: what differs when a file was replaced or written to."""

log = structlog.get_logger()


def objection(current: Bundle | None, new: Bundle) -> str | None:
    """Why `new` is not taken, or None. A generation never falls, and names one set of routes (R11)."""
    if current is None or new.generation > current.generation:
        return None
    if new.generation < current.generation:
        return f"its generation {new.generation} is older than {current.generation}, which is in force"
    if new.routes_digest != current.routes_digest:
        return f"it has other routes than the bundle in force, but the same generation {new.generation}"
    return None


class BundleFile:
    """The bundle's path and what was last seen there. `problem`: why the newest content is not in force, or None."""

    def __init__(self, path: Path, table: Table, on_swap: Callable[[], None], on_failure: Callable[[], None]) -> None:
        self.path = path
        self.problem: str | None = None
        self._table = table
        self._on_swap = on_swap
        self._on_failure = on_failure
        self._seen: Stamp | None = None

    async def follow(self) -> None:
        """Looks for changes until cancelled."""
        while True:
            await asyncio.sleep(POLL_S)
            try:
                await self.look()
            except Exception:  # what one bundle breaks must not keep the next one out
                self._failed(f"{self.path}: a bundle could not be put in force")
                log.exception("following the bundle goes on")

    async def look(self) -> None:
        """Takes the bundle in when the file is not what it was."""
        try:
            stamp = _stamp(os.stat(self.path))  # noqa: PTH116 - a local file, four times a second
        except OSError as error:
            self._missing(error)
            return
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            bundle, self._seen = await asyncio.to_thread(_read, self.path)
        except OSError as error:
            self._missing(error)
        except LlmgwError as error:
            self._failed(str(error))
        else:
            self._take(bundle)

    def _take(self, bundle: Bundle) -> None:
        why = objection(self._table.bundle, bundle)
        if why is not None:
            self._failed(f"{self.path}: the bundle is not taken: {why}")
            return
        self.problem = None
        self._table.swap(bundle, time.time())
        self._on_swap()
        routes = bundle.routes.routes
        endpoints = sum(len(route.endpoints) for route in routes)
        log.info("bundle in force", generation=bundle.generation, services=len(routes), endpoints=endpoints)

    def _missing(self, error: OSError) -> None:
        """No file is how a gateway begins; a file that went away changes nothing."""
        self._seen = None
        text = f"{self.path}: {(error.strerror or str(error)).lower()}"
        if self.problem != text:
            log.warning("no bundle to read", problem=text)
        self.problem = text

    def _failed(self, text: str) -> None:
        self.problem = text
        self._on_failure()
        log.error("the last good bundle stays in force", problem=text)


def _read(path: Path) -> tuple[Bundle, Stamp]:
    """The bundle and the stamp of the very file that was read."""
    with path.open("rb") as file:
        stamp = _stamp(os.fstat(file.fileno()))
        return load_bundle(file.read(), str(path)), stamp


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns
