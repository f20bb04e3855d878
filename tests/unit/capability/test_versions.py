# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from llmgw.capability.engines import ENGINES
from llmgw.capability.versions import too_old, unchecked


@pytest.mark.parametrize(
    ("engine", "version", "devices", "needs"),
    [
        ("vllm", "0.33.0", True, None),
        ("vllm", "0.24.0", True, None),
        ("vllm", "0.23.0", True, "0.24"),
        ("vllm", "0.23.0", False, None),
        ("vllm", "0.18.1", False, None),
        ("vllm", "0.17.0", False, "0.18"),
        ("vllm", "0.17.0", True, "0.24"),
        ("vllm", "0.24.0+cu129", True, None),
        ("vllm", "v0.9.1", True, "0.24"),
        ("vllm", "0.24.1.dev12+g0123", True, None),
        ("sglang", "0.5.20", True, None),
        ("sglang", "0.5.19.post1", True, "0.5.20"),
        ("sglang", "1.0.0", True, None),
        ("vllm", None, True, None),
        ("vllm", "unknown", True, None),
        ("vllm", "9", True, None),
        ("llama.cpp", "1.0", True, None),
        ("sim", "0.0.1", False, None),
        ("an-engine-of-tomorrow", "0.0.1", True, None),
    ],
)
def test_a_version_that_does_not_know_the_options_is_too_old(
    engine: str, version: str | None, devices: bool, needs: str | None
) -> None:
    found = too_old(engine, version, devices=devices)
    assert (found is None) is (needs is None)
    assert needs is None or f"needs {needs} or newer" in (found or "")


def test_the_sentence_says_why() -> None:
    assert too_old("vllm", "0.22.0", devices=True) == (
        "vllm 0.22.0 is too old, llmgw needs 0.24 or newer: older ones take no UUIDs in CUDA_VISIBLE_DEVICES"
    )


def test_a_version_newer_than_the_known_ones_is_a_doubt_and_no_refusal() -> None:
    assert unchecked("vllm", "0.33.0") is None
    assert unchecked("vllm", "0.33.1") == (
        "vllm 0.33.1 is newer than 0.33.0, the newest that llmgw knows: it is started like 0.33.0"
    )
    assert unchecked("sglang", "0.6.0") is not None
    assert unchecked("llama.cpp", "b99999") is None
    assert unchecked("vllm", None) is None


def test_the_newest_known_version_of_each_engine_is_not_too_old() -> None:
    for engine, can in ENGINES.items():
        if can.release is not None:
            newest = ".".join(map(str, can.release.newest))
            assert too_old(engine, newest, devices=True) is None
            assert unchecked(engine, newest) is None
