# SPDX-License-Identifier: BSD-2-Clause
"""Whether enough of a service would go on serving if some of its endpoints were drained now, by a gateway (R4).

Private to llmgw. A plan counts what runs when it is made; what has died since is seen here, before anything more is
taken away. A gateway that does not run or does not answer tells nothing, and neither do endpoints that it does not
know.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils import gateway_api

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_FIRST_DELAY_S = 0.1
_LAST_DELAY_S = 1.0
_BACK_OFF = 1.4
_READY = "ready"
_DRAINING = "draining"


class Floor(NamedTuple):
    """Of the endpoints that stay at least so many must be ready before those in `drain` may go."""

    service: str
    stay: tuple[str, ...]
    drain: tuple[str, ...]
    at_least: int


def floors_of(told: Sequence[Mapping[str, Any]]) -> tuple[Floor, ...]:
    """The floors in an option of a module."""
    return tuple(
        Floor(str(one["service"]), tuple(one["stay"]), tuple(one["drain"]), int(one["at_least"])) for one in told
    )


def short(reading: gateway_api.Reading, floors: Sequence[Floor]) -> tuple[str, ...]:
    """A sentence for every service of which too few would serve. What does not serve itself may always be drained."""
    if not reading.runs or reading.trouble is not None or reading.generation is None:
        return ()
    return tuple(sentence for floor in floors for sentence in (_short(reading, floor),) if sentence is not None)


def wait(host: Host, token: str | None, params: Mapping[str, Any]) -> tuple[str, ...]:
    """What is still short of its floor when the module's `ready_timeout_s` is over; nothing as soon as nothing is."""
    floors, admin_url = floors_of(params["floors"]), params["admin_url"]
    if not floors or admin_url is None:
        return ()
    began = time.monotonic()
    delay = _FIRST_DELAY_S
    while True:
        found = short(gateway_api.read(host, admin_url, token), floors)
        if not found or time.monotonic() - began + delay > params["ready_timeout_s"]:
            return found
        time.sleep(delay)
        delay = min(_LAST_DELAY_S, delay * _BACK_OFF)


def _short(reading: gateway_api.Reading, floor: Floor) -> str | None:
    # What routes of a run that was cut off still drain is taken in again by the very routes that are to be published.
    known = [name for name in floor.stay if reading.states.get(name, _DRAINING) != _DRAINING]
    ready = [name for name in known if reading.states[name] == _READY]
    needed = floor.at_least - (len(floor.stay) - len(known))
    if len(ready) >= needed or not any(reading.states.get(name) == _READY for name in floor.drain):
        return None
    others = ", ".join(f"{name} is {_state(reading, name)}" for name in known if name not in ready)
    return f"{floor.service}: {len(ready)} of the {needed} replicas that must go on serving are ready ({others})"


def _state(reading: gateway_api.Reading, name: str) -> str:
    return ", ".join(filter(None, (reading.states.get(name) or "-", reading.details.get(name))))
