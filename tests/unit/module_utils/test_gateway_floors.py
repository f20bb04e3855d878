# SPDX-License-Identifier: Apache-2.0
"""What must go on serving before endpoints are drained, by what a gateway says of them (R4)."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.gateway_api import Reading
from ansible_collections.llmgw.fleet.plugins.module_utils.gateway_floors import Floor, floors_of, short

FLOOR = Floor("chat", ("chat/1@n2", "chat/2@n3"), ("chat/0@n1",), 2)


def seen(**states: str | None) -> Reading:
    """A gateway that knows chat/0 to chat/2 in these states, ready unless said otherwise; None: it does not know it."""
    every: dict[str, str | None] = {"chat/0@n1": "ready", "chat/1@n2": "ready", "chat/2@n3": "ready"}
    every |= {f"chat/{name[1]}@n{int(name[1]) + 1}": state for name, state in states.items()}
    return Reading(
        runs=True,
        generation=7,
        states={name: state for name, state in every.items() if state is not None},
        details={"chat/1@n2": "connection refused"},
    )


def test_a_replica_is_drained_while_enough_others_are_ready() -> None:
    assert short(seen(), [FLOOR]) == ()


def test_nothing_is_drained_while_another_is_down_and_the_sentence_tells_which_and_why() -> None:
    assert short(seen(c1="failed"), [FLOOR]) == (
        "chat: 1 of the 2 replicas that must go on serving are ready (chat/1@n2 is failed, connection refused)",
    )


def test_what_does_not_serve_itself_may_be_drained_whatever_the_others_do() -> None:
    assert short(seen(c0="failed", c1="failed", c2="loading"), [FLOOR]) == ()


def test_endpoints_that_a_gateway_does_not_know_are_not_waited_for() -> None:
    assert short(seen(c1=None), [FLOOR]) == ()
    assert len(short(seen(c1=None, c2="failed"), [FLOOR])) == 1


def test_what_a_run_that_was_cut_off_left_draining_is_not_waited_for() -> None:
    assert short(seen(c1="draining"), [FLOOR]) == ()
    assert len(short(seen(c1="draining", c2="failed"), [FLOOR])) == 1


@pytest.mark.parametrize(
    "reading",
    [Reading(runs=False), Reading(runs=True, trouble="no answer"), Reading(runs=True, generation=None)],
    ids=["does not run", "does not answer", "has no routes"],
)
def test_a_gateway_that_tells_nothing_is_no_obstacle(reading: Reading) -> None:
    assert short(reading, [FLOOR]) == ()


def test_floors_are_read_as_steps_tell_them() -> None:
    told = {"service": "chat", "stay": ["chat/1@n2", "chat/2@n3"], "drain": ["chat/0@n1"], "at_least": 2}
    assert floors_of([told]) == (FLOOR,)
