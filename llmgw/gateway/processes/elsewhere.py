# SPDX-License-Identifier: Apache-2.0
"""What one worker has to know of the others, said by the control process and put where requests are routed by it."""

from __future__ import annotations

from llmgw.gateway.processes.channel import Elsewhere
from llmgw.gateway.processes.sharing import TAB, Numbers, endpoint_key
from llmgw.gateway.table import Table

FORGOTTEN_AFTER_S = 5.0
"""Without a word from the control process, what others have in flight is not known any more."""


def without(everything: Numbers, own: Numbers) -> Elsewhere:
    """What is in flight by `everything` beside a worker's `own`."""
    endpoints: dict[str, tuple[int, int]] = {}
    services: dict[str, int] = {}
    keys: dict[str, int] = {}
    for name, value in everything.items():
        other = int(value - own.get(name, 0))
        if other <= 0 or name[0] != "=":
            continue
        kind, key, field = name[1:].split(TAB)
        if kind == "endpoint":
            requests, tokens = endpoints.get(key, (0, 0))
            endpoints[key] = (other, tokens) if field == "in_flight" else (requests, other)
        elif kind == "service" and field == "in_flight":
            services[key] = other
        elif kind == "key":
            keys[key] = other
    return Elsewhere(endpoints, services, keys)


NOTHING = Elsewhere({}, {}, {})


def put(table: Table, elsewhere: Elsewhere) -> None:
    """Lets choices and limits reckon with it."""
    for endpoint in table.endpoints.values():
        requests, tokens = elsewhere.endpoints.get(endpoint_key(endpoint), (0, 0))
        costs = endpoint.costs
        if costs.elsewhere_requests != requests or costs.elsewhere_tokens != tokens:
            costs.elsewhere_requests, costs.elsewhere_tokens = requests, tokens
    for service, route in table.routes.items():
        route.elsewhere = elsewhere.services.get(service, 0)
    for key in table.keys:
        key.elsewhere = elsewhere.keys.get(key.name, 0)


def forget(table: Table) -> None:
    """What others have is not known: each worker keeps to its own part of the limits."""
    put(table, NOTHING)
    for route in table.routes.values():
        route.elsewhere = None
    for key in table.keys:
        key.elsewhere = None
