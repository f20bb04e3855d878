# SPDX-License-Identifier: Apache-2.0
"""What the admin API and the metrics have to know of a gateway's processes, be they one or many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from llmgw.gateway.dataplane import DataPlane
from llmgw.gateway.endpoints.health import State
from llmgw.gateway.table import LiveEndpoint, LiveRoute


class Processes(Protocol):
    """The processes that serve clients, seen from the one that tells of them. Any thread may look."""

    @property
    def generation(self) -> int | None:
        """The oldest generation that one of them serves by: what is in force everywhere (G2)."""

    @property
    def requests(self) -> int:
        """Requests that they have, in whatever stage."""

    @property
    def workers(self) -> dict[str, int]:
        """How many processes that serve clients are in each stage."""

    @property
    def restarts(self) -> int:
        """How many ended that had not been told to."""

    def waiting(self, route: LiveRoute) -> int:
        """Requests that wait for the service."""

    def idle(self, endpoint: LiveEndpoint) -> int:
        """Kept connections to the endpoint."""

    def state(self, endpoint: LiveEndpoint) -> tuple[State, str | None]:
        """The state that all of them know the endpoint to be in, and why it is not ready."""

    def problems(self) -> list[str]:
        """Sentences about processes that need somebody's eye."""


@dataclass(frozen=True, slots=True)
class OneProcess:
    """The only process."""

    plane: DataPlane

    @property
    def generation(self) -> int | None:
        """What it serves by itself."""
        bundle = self.plane.table.bundle
        return None if bundle is None else bundle.generation

    @property
    def requests(self) -> int:
        """Its own."""
        return len(self.plane.exchanges)

    @property
    def workers(self) -> dict[str, int]:
        """It serves for as long as it tells."""
        return {"starting": 0, "serving": 1, "retiring": 0, "hanging": 0}

    @property
    def restarts(self) -> int:
        """Nobody would be there to count them."""
        return 0

    def waiting(self, route: LiveRoute) -> int:
        """Its own."""
        return len(route.line)

    def idle(self, endpoint: LiveEndpoint) -> int:
        """Its own."""
        return len(endpoint.pool)

    def state(self, endpoint: LiveEndpoint) -> tuple[State, str | None]:
        """What it knows itself."""
        return endpoint.state, endpoint.detail(self.plane.loop.time())

    def problems(self) -> list[str]:
        """None: it would not answer."""
        return []
