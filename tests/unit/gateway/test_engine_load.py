# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.engines.registry import engine_of
from llmgw.gateway.endpoints.engine_load import MOST_SERIES, NAMES, EngineLoad, moved, read_load

VLLM = NAMES["vllm"]
PAGE = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a"} 3.0
vllm:num_requests_running{engine="1",model_name="a"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="a"} 7.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="a",reason="capacity"} 40.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="a"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="a"} 0.75
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="a"} 1000.0
vllm:prompt_tokens_created{engine="0",model_name="a"} 1.7e+09
vllm:generation_tokens_total{engine="0",model_name="a"} 20.0
vllm:iteration_tokens_total_bucket{engine="0",le="8.0",model_name="a"} 5.0
vllm:iteration_tokens_total_count{engine="0",model_name="a"} 6.0
"""


def test_requests_are_summed_and_of_shares_the_fullest_counts() -> None:
    assert read_load(VLLM, PAGE, 5.0) == EngineLoad(5.0, running=5.0, waiting=7.0, kv_usage=0.75, work=1026.0)


@pytest.mark.parametrize(
    ("kind", "page", "load"),
    [
        (
            "llama.cpp",
            b"# HELP\nllamacpp:requests_processing 2\nllamacpp:requests_deferred 1\nllamacpp:n_decode_total 9\n",
            EngineLoad(0.0, 2.0, 1.0, None, 9.0),
        ),
        (
            "sglang",
            b'sglang:num_running_reqs{x="m"} 4\r\nsglang:num_queue_reqs{x="m"} 0\r\nsglang:token_usage 1.000001\r\n',
            EngineLoad(0.0, 4.0, 0.0, 1.0, None),
        ),
        ("sim", b"vllm:num_requests_running 1 1700000000000\n", EngineLoad(0.0, running=1.0)),
        ("vllm", b'vllm:num_requests_running{model_name="odd \\"}{ name\\\\"} 1\n', EngineLoad(0.0, running=1.0)),
        ("vllm", b"vllm:num_requests_waiting\t3", EngineLoad(0.0, waiting=3.0)),
    ],
)
def test_every_engine_is_read_by_its_own_names(kind: str, page: bytes, load: EngineLoad) -> None:
    assert read_load(NAMES[kind], page, 0.0) == load


def test_the_names_are_those_that_the_engines_are_known_by() -> None:
    for kind, names in NAMES.items():
        engine = engine_of(kind)
        assert engine is not None
        known = engine.traits.metrics
        assert names.running == known.running.encode()
        assert names.waiting == known.waiting.encode()
        assert names.kv_usage == (known.kv_usage.encode() if known.kv_usage else None)


@pytest.mark.parametrize(
    "value", [b"NaN", b"+Inf", b"-1", b"", b"1e400", b"0x10", b"1_0", b"9" * 40, b'"3"', b"1e7", b"--1"]
)
def test_what_is_no_number_of_requests_counts_as_not_reported(value: bytes) -> None:
    page = b"vllm:num_requests_running " + value + b"\nvllm:num_requests_waiting 2\n"
    load = read_load(VLLM, page, 0.0)
    assert load == EngineLoad(0.0, running=None, waiting=2.0)


def test_a_share_in_percent_is_not_taken_for_a_share() -> None:
    assert read_load(VLLM, b"vllm:kv_cache_usage_perc 57\n", 0.0) is None


def test_one_bad_line_of_a_name_makes_its_sum_unknown() -> None:
    page = b'vllm:num_requests_running{e="0"} 1\nvllm:num_requests_running{e="1"} NaN\nvllm:num_requests_waiting 0\n'
    assert read_load(VLLM, page, 0.0) == EngineLoad(0.0, waiting=0.0)


def test_a_page_of_nothing_but_one_name_is_given_up_soon() -> None:
    assert read_load(VLLM, b"vllm:num_requests_running 1\n" * (MOST_SERIES + 1), 0.0) is None
    assert read_load(VLLM, b"vllm:num_requests_running 1\n" * MOST_SERIES, 0.0) is not None


@pytest.mark.parametrize("page", [b"", b"\n", b"<html>not found</html>", b'{"error":"no metrics"}', b"\xff\xfe\x00"])
def test_a_page_of_something_else_is_no_report(page: bytes) -> None:
    assert read_load(VLLM, page, 0.0) is None


PIECES = st.sampled_from(
    [
        b"vllm:num_requests_running",
        b"vllm:num_requests_waiting",
        b"vllm:kv_cache_usage_perc",
        b"\n",
        b" ",
        b"\t",
        b"{",
        b"}",
        b'"',
        b"\\",
        b"1",
        b"0.5",
        b"-",
        b"e",
        b"NaN",
        b"#",
        b"\r",
        b"\x00",
    ]
)


@given(st.lists(PIECES | st.binary(max_size=8), max_size=40).map(b"".join))
def test_any_bytes_are_read_without_an_error_and_within_bounds(page: bytes) -> None:
    load = read_load(VLLM, page, 1.0)
    if load is not None:
        assert (load.running, load.waiting, load.kv_usage) != (None, None, None)
        assert all(one is None or 0 <= one <= 1e6 for one in (load.running, load.waiting))
        assert load.kv_usage is None or 0 <= load.kv_usage <= 1


@given(st.permutations(PAGE.splitlines(keepends=True)))
def test_the_order_of_lines_does_not_matter(lines: list[bytes]) -> None:
    assert read_load(VLLM, b"".join(lines), 5.0) == read_load(VLLM, PAGE, 5.0)


def test_an_engine_that_only_gets_more_requests_has_not_moved() -> None:
    before = EngineLoad(1.0, 3.0, 2.0, 0.5, 100.0)
    assert not moved(before, EngineLoad(2.0, 3.0, 9.0, 0.5, 100.0))
    assert moved(before, EngineLoad(2.0, 3.0, 2.0, 0.5, 101.0))
    assert moved(before, EngineLoad(2.0, 3.0, 2.0, 0.51, 100.0))
    assert moved(before, EngineLoad(2.0, 2.0, 2.0, 0.5, 100.0))
