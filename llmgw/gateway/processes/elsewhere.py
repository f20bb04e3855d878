# SPDX-License-Identifier: Apache-2.0
"""What one worker has to know of the others, said by the control process and put where requests are routed by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llmgw.gateway.processes.channel import Elsewhere
from llmgw.gateway.processes.sharing import TAB, Numbers, endpoint_key
from llmgw.gateway.table import Table

FORGOTTEN_AFTER_S = 5.0
"""Without a word from the control process, what others have in flight is not known any more."""


def without(everything: Numbers, own: Numbers, shares: Mapping[str, int] | None = None) -> Elsewhere:
    """What is in flight by `everything` beside a worker's `own`. `shares`: its of `divided`."""
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
    return Elsewhere(endpoints, services, keys, dict(shares or {}))


def divided(limits: Mapping[str, int], workers: Sequence[Numbers], turn: int) -> list[dict[str, int]]:
    """For each worker how many requests it may have in flight, of the services that two of them or more wait for.

    The next place is taken at once by whoever waits where one is given back. Without a share, clients of the worker
    that has the places would keep them for as long as they wait, and those of another one would never get any.

    What workers that do not wait have in flight is left to them. What does not divide goes to others at each `turn`.
    """
    shares: list[dict[str, int]] = [{} for _worker in workers]
    for service, limit in limits.items():
        wait = [at for at, one in enumerate(workers) if one.get(f"=service\t{service}\twaiting", 0)]
        if len(wait) < 2:  # noqa: PLR2004 - one alone may have all
            continue
        others = [one for at, one in enumerate(workers) if at not in wait]
        taken = sum(int(one.get(f"=service\t{service}\tin_flight", 0)) for one in others)
        each, more = divmod(max(0, limit - taken), len(wait))
        for place, at in enumerate(wait):
            shares[at][service] = each + ((place + turn) % len(wait) < more)
    return shares


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
        route.share = elsewhere.shares.get(service)
    for key in table.keys:
        key.elsewhere = elsewhere.keys.get(key.name, 0)


def forget(table: Table) -> None:
    """What others have is not known: each worker keeps to its own part of the limits."""
    put(table, NOTHING)
    for route in table.routes.values():
        route.elsewhere = None
    for key in table.keys:
        key.elsewhere = None
