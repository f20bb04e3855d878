# SPDX-License-Identifier: Apache-2.0
"""What one process keeps of its requests, as the bundle says: the access log, and the sample that is explained."""

from __future__ import annotations

import asyncio

from llmgw.gateway.access_log import AccessLog
from llmgw.gateway.dataplane import DataPlane


class RecordKeeping:
    """The access log and the sample of one data plane. `start`, `follow` after each new bundle, then `close`."""

    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane
        self.access_log = AccessLog(None)

    def start(self) -> None:
        """Begins to write, in the process that serves: the log's thread does not cross a fork."""
        self.access_log.start()
        self.follow()

    def follow(self) -> None:
        """Takes the settings of the bundle in force. Without an access log no request pays for one."""
        gateway = self._plane.table.gateway
        self.access_log.path = gateway.access_log
        self._plane.on_end = None if gateway.access_log is None else self.access_log.write
        self._plane.sampler.share = gateway.explain_share

    async def close(self) -> None:
        """Writes what is still waiting. After the last request."""
        await asyncio.to_thread(self.access_log.close)
