# SPDX-License-Identifier: Apache-2.0
"""The third question about an endpoint: do its requests make progress? (G3). Pure.

An engine can answer the health question and the list of models for hours while the part of it that computes stands
still. So silence is measured: requests in flight and no content from any of them. What breaks a silence: content, the
last request's end, and the engine's own numbers when they move, since one long answer that is not streamed is hours of
work without a byte. Comments in a stream are life, not progress.
"""

from __future__ import annotations

from math import inf

from llmgw.gateway.endpoints.engine_load import EngineLoad, moved

SILENT_S = 60.0
"""Silence from which on an engine hangs whose own numbers, which it reports still, stand still too."""
SILENT_BLIND_S = 300.0
"""The same for an engine that reports no numbers, or none any more: what is not seen is not known to stand still."""
TIMES_ITS_LONGEST = 3.0
LONGEST_S = 600.0
"""An engine that was silent for long and then spoke is given three times that, up to this."""
MEAN_WAIT_S = 10.0
"""How long requests wait on average, at least, in a silence that is a hang. A client that sends nothing but bad
requests, refused in milliseconds, makes no content either.
"""


class Progress:
    """The silence of one endpoint. `since`: loop time at which it began; while nothing waits it begins ever anew.
    `spoke_at`: loop time of the last content, or of the last report in which the engine's numbers had moved.
    """

    __slots__ = ("_blind", "_ended", "_load", "_longest_s", "_swept_at", "_waited", "since", "spoke_at")

    def __init__(self) -> None:
        self.restarted()

    def restarted(self) -> None:
        """The engine is another process: what was learned of the old one is void."""
        self._load: EngineLoad | None = None
        self._blind = True
        self._longest_s = 0.0
        self._swept_at = inf
        self.spoke_at = -inf
        self._begin(inf, 0)

    def sweep(self, waiting: int, ended: int, content_at: float, load: EngineLoad | None, now: float) -> float | None:
        """How long the endpoint has been silent, if that is a hang, else None. To be called a few times a second.

        `waiting`: requests in flight whose answer is read. `ended`: how many have ended since ever. `content_at`: loop
        time of the last content. `load`: the engine's newest report.
        """
        if self.since == inf:
            self._begin(now, ended)
            self._swept_at = now
        self._blind = load is None
        if load is not None and load is not self._load:
            if self._load is not None and moved(self._load, load):
                self.spoke_at = load.at
                self._begin(max(self.since, load.at), ended)
            self._load = load
        if not waiting:
            self._begin(now, ended)
        elif content_at > self.since:
            self._longest_s = max(self._longest_s, content_at - self.since)
            self.spoke_at = content_at
            self._begin(content_at, ended)
        self._waited += waiting * (now - self._swept_at)
        self._swept_at = now
        silent = now - self.since
        if silent < self.limit_s or self._waited < MEAN_WAIT_S * (1 + ended - self._ended):
            return None
        return silent

    @property
    def limit_s(self) -> float:
        """Silence from which on this endpoint hangs."""
        base = SILENT_BLIND_S if self._blind else SILENT_S
        return min(max(base, TIMES_ITS_LONGEST * self._longest_s), LONGEST_S)

    def _begin(self, at: float, ended: int) -> None:
        self.since = at
        self._waited = 0.0
        self._ended = ended


def hung_detail(silent_s: float, waiting: int) -> str:
    """What is told of an endpoint that hangs."""
    requests = "1 request waits" if waiting == 1 else f"{waiting} requests wait"
    return f"hung: {requests} and nothing came for {silent_s:.0f} s, though the health question is answered"
