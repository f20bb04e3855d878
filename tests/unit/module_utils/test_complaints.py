# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.complaints import complaint
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.known_complaints import KNOWN
from tests.support.engine_errors import SAID


@pytest.mark.parametrize(("kind", "code", "line"), SAID)
def test_an_error_is_named_among_other_lines(kind: str, code: str, line: str) -> None:
    after = "RuntimeError: Engine core initialization failed. See root cause above."
    found = complaint(kind, f"Traceback (most recent call last):\n  File x, line 1\n{line}\n{after}\n")
    assert found is not None
    assert found.code == code
    assert found.remedy.endswith(".")
    assert not found.says.endswith(".")
    assert "{" not in str(found).replace("{fetch: missing}", "")
    assert "\n" not in str(found)


def test_every_named_error_has_an_example() -> None:
    assert {code for _, code, _ in SAID} == {known.code for known in KNOWN}


def test_every_named_error_stands_in_the_reference_in_its_order() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/unit-states.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z-]+)` \|", page.split("## Errors that have a name")[1], re.MULTILINE)
    assert listed == list(dict.fromkeys(known.code for known in KNOWN))


def test_a_context_that_is_too_long_is_told_with_the_length_that_would_fit() -> None:
    found = complaint("vllm", SAID[0][2])
    assert found is not None
    assert str(found) == (
        "the KV cache has 8.11 GiB, too little for one request of 131072 tokens. Set max_model_len to 66448 or less, "
        "or raise memory_utilization, or give it more devices."
    )


def test_the_cause_comes_before_what_follows_from_it() -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory.\nDistNetworkError: wait timeout after 600000ms\n"
    found = complaint("vllm", text)
    assert found is not None
    assert found.code == "out-of-device-memory"


def test_an_error_without_a_name_is_told_in_the_engines_own_words() -> None:
    text = "KeyError: first\nValueError: the moon is full\nINFO bye\nRuntimeError: Engine core initialization failed.\n"
    found = complaint("vllm", text)
    assert found is not None
    assert (found.code, str(found)) == ("unnamed", "its log says: ValueError: the moon is full")


def test_the_error_of_an_earlier_start_gives_way_to_that_of_the_last() -> None:
    begin = "vLLM server version 0.33.0, serving model m\n"
    text = f"{begin}CUDA out of memory\n" + "filler\n" * 30 + f"{begin}ValueError: something else entirely\n"
    found = complaint("vllm", text)
    assert found is not None
    assert found.says == "its log says: ValueError: something else entirely"


def test_what_is_said_for_the_record_is_no_error() -> None:
    warning = (
        "(APIServer pid=3) WARNING 11-30 12:12:31 [x.py:255] errors like `OSError: [Errno 24] Too many open files`"
    )
    assert complaint("vllm", warning) is None
    assert complaint("llama.cpp", "0.00.004.056 I cmn  common_init_: error: Too many open files, never mind") is None


def test_the_log_of_a_start_that_went_well_names_no_error() -> None:
    for path in sorted((Path(__file__).parents[2] / "fixtures" / "engine-logs").iterdir()):
        assert complaint(path.name.rpartition("-")[0], path.read_text(encoding="utf-8")) is None, path.name


@pytest.mark.parametrize("text", ["", "all is well\n", "INFO: 0 errors\n"])
def test_a_log_without_errors_has_no_complaint(text: str) -> None:
    assert complaint("vllm", text) is None


def test_a_long_part_of_a_log_is_shortened() -> None:
    found = complaint("vllm", "ValueError: " + "long " * 500)
    assert found is not None
    assert len(str(found)) < 300
