# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from math import inf

from llmgw.gateway.admit.admission import Full, busy
from llmgw.gateway.admit.line import Line
from llmgw.gateway.wire.refusal import KEY_BUSY, SERVICE_BUSY


@dataclass
class Seen:
    in_flight: int = 0
    max_concurrency: int | None = None


FULL = Seen(4, 4)


def line_of(*keys: str, max_queue: int = 2) -> Line[int]:
    line: Line[int] = Line(max_queue)
    for number, key in enumerate(keys):
        assert line.offer(number, 0, key, 0.0, inf)
    return line


def test_who_finds_a_full_service_waits_where_there_is_a_line() -> None:
    assert busy(FULL, None) is SERVICE_BUSY
    assert busy(FULL, None, line_of()) is Full.WAIT
    assert busy(FULL, None, line_of("a", "b"), key_name="a") is Full.QUEUE
    assert busy(Seen(3, 4), None, line_of()) is None
    assert busy(Seen(3), None, line_of()) is None


def test_a_newcomer_does_not_pass_by_those_who_wait() -> None:
    assert busy(Seen(3, 4), None, line_of("a")) is Full.WAIT
    assert busy(Seen(3, 4), None, line_of("a", "b"), key_name="b") is Full.QUEUE


def test_there_is_room_where_another_has_to_give_way() -> None:
    assert busy(FULL, None, line_of("a", "a"), key_name="b") is Full.WAIT
    assert busy(FULL, None, line_of("a", "a"), key_name="a") is Full.QUEUE
    assert busy(FULL, None, line_of("a", "a"), key_name="a", priority=1) is Full.WAIT
    assert busy(FULL, None, line_of("a", "a"), key_name="b", priority=-1) is Full.QUEUE


def test_the_limit_of_a_key_is_no_reason_to_wait() -> None:
    assert busy(FULL, Seen(2, 2), line_of()) is KEY_BUSY
    assert busy(FULL, Seen(1, 2), line_of()) is Full.WAIT
    assert busy(Seen(0), Seen(2, -1)) is KEY_BUSY
