# SPDX-License-Identifier: Apache-2.0
"""The gateway's own view of its endpoints, asked about twenty times a second over its admin API."""

from __future__ import annotations

import http.client
import json
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.fleet.faults.inside import Inside

INTERVAL_S = 0.05
_ADMIN_PORT = 8081


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint at one moment."""

    state: str
    in_flight: int
    leaving: bool

    @property
    def available(self) -> bool:
        """Whether it gets new requests."""
        return self.state == "ready" and not self.leaving


@dataclass(frozen=True, slots=True)
class Sample:
    """All endpoints at one moment of the monotonic clock, and the generation of the routes in force."""

    at: float
    generation: int
    endpoints: dict[str, Endpoint]

    def available(self, service: str) -> int:
        """How many replicas of a service get new requests."""
        return sum(one.available for name, one in self.endpoints.items() if name.startswith(f"{service}/"))


class Sampling:
    """As a context manager: samples, in a thread of its own."""

    def __init__(self, inside: Inside, gateway: str) -> None:
        self._inside = inside
        self._gateway = gateway
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampling")
        self.samples: list[Sample] = []
        self.trouble: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(30)

    @property
    def last(self) -> Sample:
        """The newest sample; waits for the first."""
        end = time.monotonic() + 10
        while not self.samples:
            assert time.monotonic() < end, f"the gateway does not tell its endpoints: {self.trouble[-3:]}"
            time.sleep(INTERVAL_S)
        return self.samples[-1]

    def within(self, begin: float, end: float) -> list[Sample]:
        """The samples of a time."""
        return [one for one in list(self.samples) if begin <= one.at <= end]

    def _run(self) -> None:
        with self._inside.network(self._gateway):
            while not self._stop.is_set():
                try:
                    self._ask_until_trouble()
                except (OSError, ValueError, http.client.HTTPException) as error:
                    self.trouble.append(repr(error))
                    time.sleep(INTERVAL_S)

    def _ask_until_trouble(self) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", _ADMIN_PORT, timeout=5)) as connection:
            while not self._stop.is_set():
                began = time.monotonic()
                connection.request("GET", "/api/v1/endpoints")
                self.samples.append(_sample(began, json.loads(connection.getresponse().read())))
                time.sleep(max(0.0, INTERVAL_S - (time.monotonic() - began)))


def _sample(at: float, document: dict[str, object]) -> Sample:
    endpoints = document["endpoints"]
    assert isinstance(endpoints, list)
    generation = document["generation"]
    return Sample(
        at,
        generation if isinstance(generation, int) else 0,
        {one["id"]: Endpoint(one["state"], one["in_flight"], one["leaving"]) for one in endpoints},
    )
