# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.start_failure import why

LATE = "not ready within 600 s: its port is closed"
GUARD = "llmgw-guard: rank 0 at 10.0.0.1, one of 2, group abc\n"


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        ("", LATE),
        ("No space left on device\n", f"a disk that it writes to is full ({LATE}). Free space: "),
        ("ValueError: the moon is full\n", f"{LATE}; its log says: ValueError: the moon is full"),
        ("Loading safetensors checkpoint shards: 50% Completed\n", f"{LATE}; its log tells: loading weights, 50 %"),
        (
            f"{GUARD}llmgw-guard: waiting for rank 1 at 10.0.0.2 (it waits too) (group abc)\n",
            f"{LATE}; it waits for rank 1",
        ),
    ],
)
def test_a_failed_start_is_told_by_what_its_log_knows(log: str, sentence: str) -> None:
    assert why("vllm", LATE, log).startswith(sentence)
    assert not why("vllm", LATE, log).endswith(".")
