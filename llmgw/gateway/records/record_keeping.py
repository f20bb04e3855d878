# SPDX-License-Identifier: Apache-2.0
"""What one process keeps of its requests, as the bundle says: the access log, and the sample that is explained."""

from __future__ import annotations

import asyncio
from typing import Final

from llmgw.gateway.dataplane import DataPlane
from llmgw.gateway.records.access_log import AccessLog

COUNT_S: Final = 0.25


class RecordKeeping:
    """The access log and the sample of one data plane. `start`, `follow` after each new bundle, then `close`."""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane
        self.access_log = AccessLog(None)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begins to write, in the process that serves: the log's thread does not cross a fork."""
        self.access_log.start()
        self._keep_counting()
        self.follow()

    def follow(self) -> None:
        """Takes the settings of the bundle in force. Without an access log no request pays for one."""
        gateway = self._plane.table.gateway
        self.access_log.path = gateway.access_log
        self._plane.on_end = None if gateway.access_log is None else self.access_log.write
        self._plane.sampler.share = gateway.explain_share

    def _keep_counting(self) -> None:
        self._count()
        self._timer = self._plane.loop.call_later(COUNT_S, self._keep_counting)

    def _count(self) -> None:
        """Brings what the log's thread counts to the plane's counters."""
        counters = self._plane.counters
        counters.log_lines, counters.log_dropped = self.access_log.written, self.access_log.dropped

    async def close(self) -> None:
        """Writes what is still waiting. After the last request."""
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.to_thread(self.access_log.close)
        self._count()
