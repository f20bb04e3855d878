# SPDX-License-Identifier: BSD-2-Clause
"""Waits until a gateway goes by new routes and endpoints have nothing in flight, by its admin API (G6b).

Private to llmgw. A gateway that does not answer counts as busy until the deadline; only a closed port, which means that
no gateway runs, counts as idle.
"""

from __future__ import annotations

import errno
import json
import time
from typing import TYPE_CHECKING, Iterator, Mapping, NamedTuple, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gateway_facts

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host, Response

ENDPOINTS_PATH = "/api/v1/endpoints"
_UNAUTHORIZED = 401
_ASKED_WITHOUT = (
    "it asks for its admin token (HTTP status 401), as gateway.admin_token_sha256 in the catalog says: let "
    "llmgw_gateway_admin_token_file in the inventory name the file on the gateway's host that holds the token"
)
_ASKED_WITH_ANOTHER = (
    "it does not take the admin token that it was given (HTTP status 401): the file on the gateway's host that "
    "llmgw_gateway_admin_token_file in the inventory names must hold the token of gateway.admin_token_sha256 in the "
    "catalog"
)
_ASK_TIMEOUT_S = 3.0
_FIRST_DELAY_S = 0.05
_LAST_DELAY_S = 1.0
_BACK_OFF = 1.4


class Answers(NamedTuple):
    """How many answers a gateway has had of an endpoint since it knows it (G7)."""

    good: int
    bad: int


class Reading(NamedTuple):
    """What a gateway says now. `runs` is False when its port is closed; `trouble` says why nothing could be read, and
    `refused` that it is for want of the admin token.

    `in_flight`: requests by endpoint; None for an endpoint whose number it does not tell.
    `states`: what its probes found; `details`: why that is not ready. `answers`: of the endpoints of which it tells.
    """

    runs: bool
    generation: int | None = None
    in_flight: Mapping[str, int | None] = {}
    trouble: str | None = None
    states: Mapping[str, str | None] = {}
    details: Mapping[str, str | None] = {}
    answers: Mapping[str, Answers] = {}
    refused: bool = False


class Seen(NamedTuple):
    """Whether the gateway's own probes found the endpoints ready. `detail` says what is missing, `unready` which.
    `refused`: it tells nothing without the right admin token.
    """

    complete: bool
    detail: str
    waited_s: float
    unready: tuple[str, ...] = ()
    refused: bool = False


class Drained(NamedTuple):
    """How waiting ended. `in_flight`: those of the endpoints waited for that are not known to be idle."""

    complete: bool
    detail: str
    waited_s: float
    generation: int | None
    in_flight: Mapping[str, int | None]


def read(host: Host, admin_url: str, token: str | None, timeout_s: float = _ASK_TIMEOUT_S) -> Reading:
    """One reading of the admin API; never raises."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return understand(host.fetch(admin_url.rstrip("/") + ENDPOINTS_PATH, timeout_s, headers), with_token=bool(token))


def understand(response: Response, *, with_token: bool = False) -> Reading:
    """The reading in an answer, whatever it holds. `with_token`: it was asked with one."""
    if response.status is None:
        error = response.error or "no answer"
        if f"[Errno {errno.ECONNREFUSED}]" in error:
            return Reading(runs=False, trouble="no gateway runs there")
        return Reading(runs=True, trouble=f"the gateway does not answer ({error})")
    if response.status == _UNAUTHORIZED:
        why = _ASKED_WITH_ANOTHER if with_token else _ASKED_WITHOUT
        return Reading(runs=True, trouble=f"the gateway does not tell its endpoints: {why}", refused=True)
    try:
        generation, endpoints = gateway_facts.endpoints(response)
    except gateway_facts.GatewayError as error:
        return Reading(runs=True, trouble=f"the gateway does not tell its endpoints ({error})")
    return Reading(
        runs=True,
        generation=generation,
        in_flight={one.endpoint: one.in_flight for one in endpoints},
        states={one.endpoint: one.state for one in endpoints},
        details={one.endpoint: one.detail for one in endpoints},
        answers=dict(_answers(response.body)),
    )


def _answers(body: bytes) -> Iterator[tuple[str, Answers]]:
    """The counts in a document of endpoints. They are no facts: with every request they are others.

    An endpoint that no route names any more may have the id of the one that took its place, and is left out.
    """
    for entry in json.loads(body)["endpoints"]:
        said = entry if isinstance(entry, dict) and entry.get("leaving") is not True else {}
        name, good, bad = said.get("id"), _count(said.get("good")), _count(said.get("bad"))
        if isinstance(name, str) and good is not None and bad is not None:
            yield name, Answers(good, bad)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def busy(reading: Reading, generation: int, endpoints: Sequence[str]) -> Mapping[str, int | None] | None:
    """Endpoints that are not known to be idle; None while the gateway is not known to go by this generation's routes.

    Until it does, an endpoint with nothing in flight may get its next request at any moment.
    """
    if not reading.runs:
        return {}
    if reading.generation is None or reading.generation < generation:
        return None
    counts = {name: reading.in_flight[name] for name in endpoints if name in reading.in_flight}
    return {name: count for name, count in counts.items() if count != 0}


def wait(
    host: Host,
    admin_url: str,
    token: str | None,
    generation: int,
    endpoints: Sequence[str],
    *,
    reload_timeout_s: float,
    drain_timeout_s: float,
) -> Drained:
    """Waits until the gateway goes by this generation and the endpoints are idle or gone, or the time is over.

    The time is `reload_timeout_s`, and where there are endpoints to wait for `drain_timeout_s` more.
    """
    began = time.monotonic()
    limit = reload_timeout_s + (drain_timeout_s if endpoints else 0.0)
    delay = _FIRST_DELAY_S
    while True:
        reading = read(host, admin_url, token)
        left = busy(reading, generation, endpoints)
        waited = time.monotonic() - began
        if left is not None and not left:
            detail = reading.trouble or ("idle" if endpoints else "the gateway has the routes")
            return Drained(complete=True, detail=detail, waited_s=waited, generation=reading.generation, in_flight={})
        if waited + delay > limit:
            unknown: dict[str, int | None] = dict.fromkeys(endpoints)
            return Drained(
                complete=False,
                detail=f"went on after {waited:.1f} s: {_obstacle(reading, generation, left)}",
                waited_s=waited,
                generation=reading.generation,
                in_flight=unknown if left is None else left,
            )
        time.sleep(delay)
        delay = min(_LAST_DELAY_S, delay * _BACK_OFF)


def _obstacle(reading: Reading, generation: int, left: Mapping[str, int | None] | None) -> str:
    if reading.trouble is not None:
        return reading.trouble
    if left is None:
        has = "none" if reading.generation is None else str(reading.generation)
        return f"the gateway goes by generation {has}, not yet by {generation}"
    return "in flight: " + ", ".join(f"{name} {'-' if n is None else n}" for name, n in sorted(left.items()))


def wait_ready(
    host: Host, admin_url: str, token: str | None, generation: int, endpoints: Sequence[str], *, timeout_s: float
) -> Seen:
    """Waits until the gateway goes by this generation and its probes find every endpoint ready, or the time is over.

    A gateway that goes by newer routes without them is not waited for: another controller has published.
    Where no gateway runs there is nobody to see them, which is no obstacle.
    """
    began = time.monotonic()
    delay = _FIRST_DELAY_S
    while True:
        reading = read(host, admin_url, token)
        missing = unready(reading, generation, endpoints)
        waited = time.monotonic() - began
        if missing is None:
            return Seen(complete=True, detail=reading.trouble or "ready", waited_s=waited)
        overtaken = reading.generation is not None and reading.generation > generation
        if overtaken or waited + delay > timeout_s:
            return Seen(
                complete=False,
                detail=missing,
                waited_s=waited,
                unready=_unready(reading, generation, endpoints),
                refused=reading.refused,
            )
        time.sleep(delay)
        delay = min(_LAST_DELAY_S, delay * _BACK_OFF)


def unseen(seen: Seen) -> str:
    """What to say and to ask where not all endpoints were seen ready."""
    if seen.refused:
        return (
            "The routes are published, but whether the gateway reaches what was started is not known: "
            f"{seen.detail}. Then apply again."
        )
    return (
        f"The gateway does not see what was started answer, {seen.waited_s:.0f} s after its routes were published: "
        f"{seen.detail}. Can this host reach the address and port of the engine, and has it the engine's key?"
    )


def unready(reading: Reading, generation: int, endpoints: Sequence[str]) -> str | None:
    """What keeps the gateway from sending requests to all of the endpoints; None when nothing does."""
    if not reading.runs:
        return None
    if reading.trouble is not None or reading.generation is None or reading.generation < generation:
        return _obstacle(reading, generation, None)
    return ", ".join(_unlike(reading, name) for name in _unready(reading, generation, endpoints)) or None


def _unready(reading: Reading, generation: int, endpoints: Sequence[str]) -> tuple[str, ...]:
    """The endpoints that are not known to be ready under these routes."""
    known = reading.generation is not None and reading.generation >= generation
    return tuple(name for name in endpoints if not known or reading.states.get(name) != "ready")


def _unlike(reading: Reading, name: str) -> str:
    """An endpoint's state, and why it is not ready."""
    why = reading.details.get(name)
    return f"{name} is {reading.states.get(name) or 'unknown'}{f' ({why})' if why else ''}"
