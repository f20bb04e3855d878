# SPDX-License-Identifier: Apache-2.0
"""Whatever an engine prints, its log is read in bounded time, and what comes out may stand in a sentence and in facts.

LLMGW_FUZZ_SECONDS makes the damage go on with other examples every time (`make fuzz`).
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.complaints import complaint
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.known_complaints import KNOWN
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.memory import memory
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.progress import KINDS, progress
from tests.support.engine_errors import SAID

FOLDER = Path(__file__).parents[1] / "fixtures" / "engine-logs"
LOGS = [path.read_text(encoding="utf-8") for path in sorted(FOLDER.iterdir())]
WORDS = [*(line for log in LOGS for line in log.splitlines()), *(line for _, _, line in SAID)]
ODD = ["", "\r", "\x1b[31m", "\x00", "9" * 400, "1e999", "-1", "nan", "{0}", "%s", "\ud800", "(", "DP99999", "." * 5000]
FUZZ = float(os.environ.get("LLMGW_FUZZ_SECONDS", "0"))
SEARCH = settings() if FUZZ == 0 else settings(derandomize=False, database=None, max_examples=2000)
SOON_S = 20.0
"""For 200 KB that no pattern was made for. It takes a fiftieth of that."""

BROKEN = st.builds(
    lambda line, at, odd: line[:at] + odd + line[at:], st.sampled_from(WORDS), st.integers(0, 80), st.sampled_from(ODD)
)
LINES = st.lists(st.one_of(st.sampled_from(WORDS), BROKEN, st.text(max_size=40)), max_size=25)


@SEARCH
@given(kind=st.sampled_from([*KINDS, None, "other"]), lines=LINES)
def test_any_log_gives_sane_figures_and_sentences(kind: str | None, lines: list[str]) -> None:
    text = "\n".join(lines)
    came = progress(kind, text)
    assert came is None or 0.0 <= came.fraction <= 1.0
    said = memory(kind, text)
    for value in () if said is None else (said.weights_mib, said.kv_cache_mib, said.kv_cache_tokens, said.graphs_mib):
        assert value is None or 0 <= value < 2**63
    why = complaint(kind, text)
    if why is not None:
        assert str(why).isprintable()
        assert len(str(why)) < 700


@pytest.mark.parametrize("kind", ["sglang", "vllm"])
@pytest.mark.parametrize(
    "piece",
    [
        "a" * 1000,
        "Error",
        "NET/IB ",
        "max seq len (",
        "Capture ",
        "KV cache allocated. ",
        "Loading shards: ",
        "1 ",
        "error: ",
        "DP0 ",
        "model buffer size = ",
        "\n",
    ],
)
def test_half_a_word_over_and_over_is_read_in_bounded_time(kind: str, piece: str) -> None:
    long = (piece * 2000)[:1990]
    text = f"{long}\n" * 100
    begun = time.process_time()
    progress(kind, text)
    memory(kind, text)
    complaint(kind, text)
    assert time.process_time() - begun < SOON_S


def test_no_pattern_of_an_error_crosses_a_line() -> None:
    for known in KNOWN:
        for _, _, line in SAID:
            found = known.pattern.search(f"{line}\n{line}")
            assert found is None or "\n" not in found.group(0)
