# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.wire.request_id import RequestIds, trace_id

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01".encode()
ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
ids = RequestIds()

header_values = st.one_of(
    st.binary(max_size=200),
    st.from_regex(rb"[A-Za-z0-9._:-]{0,130}", fullmatch=True),
    st.from_regex(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?", fullmatch=True),
)
headers = st.lists(st.tuples(st.sampled_from([b"x-request-id", b"traceparent", b"tracestate", b"host"]), header_values))


@pytest.mark.parametrize("name", ["a", "550e8400-e29b-41d4-a716-446655440000", "team.a:job_7-x", "x" * 128])
def test_a_clients_id_is_taken_as_it_is(name: str) -> None:
    assert ids.take(name.encode()) == name


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"x" * 129,
        b"a b",
        b"a\n",
        b"\na",
        b"a\r\nx: y",
        b"a\x00",
        "ä".encode(),
        b"\xff",
        b'"',
        b"{}",
        b"a/b",
        b"a,b",
    ],
)
def test_what_is_no_id_is_replaced_by_a_new_one(value: bytes) -> None:
    made = ids.take(value)
    assert ID.fullmatch(made)
    assert made.encode() != value


def test_without_a_clients_id_each_request_gets_its_own() -> None:
    made = [ids.take(None) for _request in range(1000)]
    assert len(set(made)) == 1000
    assert all(ID.fullmatch(one) for one in made)


def test_ids_of_two_processes_never_meet() -> None:
    others = RequestIds()
    ours, theirs = ids.take(None), others.take(None)
    assert ours.partition("-")[0] != theirs.partition("-")[0]
    assert len(ours.partition("-")[0]) == 16


def test_an_id_that_is_there_twice_is_not_taken() -> None:
    named, _trace = ids.of([(b"x-request-id", b"a"), (b"x-request-id", b"b")])
    assert named not in {"a", "b", "a,b"}


def test_the_id_and_the_trace_are_found_among_the_headers() -> None:
    assert ids.of([(b"host", b"x"), (b"traceparent", PARENT), (b"x-request-id", b"mine")]) == ("mine", TRACE)
    named, trace = ids.of([(b"host", b"x")])
    assert named
    assert trace is None


@given(headers)
def test_whatever_headers_hold_the_id_is_one(given_headers: list[tuple[bytes, bytes]]) -> None:
    named, trace = ids.of(given_headers)
    assert ID.fullmatch(named)
    assert trace is None or (re.fullmatch("[0-9a-f]{32}", trace) and trace != "0" * 32)
    own = [value for name, value in given_headers if name == b"x-request-id"]
    if len(own) == 1 and re.fullmatch(rb"[A-Za-z0-9._:-]{1,128}", own[0]):
        assert named.encode() == own[0]
    else:
        assert named.encode() not in own


@pytest.mark.parametrize(
    "value",
    [
        PARENT,
        f"00-{TRACE}-00f067aa0ba902b7-ff".encode(),
        f"01-{TRACE}-00f067aa0ba902b7-01".encode(),
        f"cc-{TRACE}-00f067aa0ba902b7-01-what-the-future-brings".encode(),
        f"fe-{TRACE}-00f067aa0ba902b7-01-".encode(),
    ],
)
def test_a_valid_traceparent_tells_its_trace(value: bytes) -> None:
    assert trace_id(value) == TRACE


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        f"00-{TRACE}-00f067aa0ba902b7".encode(),
        f"00-{TRACE}-00f067aa0ba902b7-01-more".encode(),
        f"00-{TRACE}-00f067aa0ba902b7-01.".encode(),
        f"cc-{TRACE}-00f067aa0ba902b7-01.more".encode(),
        f"ff-{TRACE}-00f067aa0ba902b7-01".encode(),
        f"0-{TRACE}-00f067aa0ba902b7-01".encode(),
        f".0-{TRACE}-00f067aa0ba902b7-01".encode(),
        f"000-{TRACE}-00f067aa0ba902b7-01".encode(),
        f"00-{TRACE.upper()}-00f067aa0ba902b7-01".encode(),
        f"00-{TRACE}-00F067AA0BA902B7-01".encode(),
        f"00-{TRACE}-00f067aa0ba902b7-0".encode(),
        f"00-{TRACE}-00f067aa0ba902b7-0g".encode(),
        f"00-{'0' * 32}-00f067aa0ba902b7-01".encode(),
        f"00-{TRACE}-{'0' * 16}-01".encode(),
        f"00-{TRACE}0-00f067aa0ba902b7-01".encode(),
        f"00-{TRACE[1:]}-00f067aa0ba902b7-01".encode(),
        f"00-{TRACE}-00f067aa0ba902b7-01\n".encode(),
        f" 00-{TRACE}-00f067aa0ba902b7-01".encode(),
    ],
)
def test_a_traceparent_that_is_not_valid_counts_as_none(value: bytes | None) -> None:
    assert trace_id(value) is None
