# SPDX-License-Identifier: Apache-2.0
"""Endpoints as the policies of a gateway see them, without a gateway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llmgw.gateway.routing.cost import Ask, Charge, EndpointCosts
from llmgw.model.ids import EndpointId, EngineKind, NodeName, ReplicaId
from llmgw.model.route import Endpoint


@dataclass(eq=False, slots=True)
class Seen:
    """An endpoint and its account; `give` does what the data plane does with a request."""

    spec: Endpoint
    costs: EndpointCosts
    in_flight: int = 0

    def give(self, ask: Ask, now: float) -> Charge:
        """A request is sent there."""
        self.in_flight += 1
        return self.costs.charge(ask, now)

    def end(self, charge: Charge, now: float) -> None:
        """Its answer is complete."""
        self.in_flight -= 1
        self.costs.done(charge, now)


def spec(name: str = "chat-0", device_class: str | None = "h100-80g", devices: int | None = 1, **more: Any) -> Endpoint:
    """An endpoint's entry in the route table."""
    return Endpoint(
        EndpointId(name),
        ReplicaId(name),
        NodeName("n1"),
        "127.0.0.1",
        18000,
        EngineKind("vllm"),
        "m",
        device_class=device_class,
        devices=devices,
        **more,
    )


def seen(name: str = "chat-0", device_class: str | None = "h100-80g", in_flight: int = 0, **more: Any) -> Seen:
    """An endpoint that nothing was sent to by `costs`, with `in_flight` requests."""
    entry = spec(name, device_class, **more)
    return Seen(entry, EndpointCosts(entry), in_flight)


def fleet(count: int, device_class: str | None = "h100-80g", **more: Any) -> list[Seen]:
    """So many alike."""
    return [seen(f"chat-{number}", device_class, **more) for number in range(count)]
