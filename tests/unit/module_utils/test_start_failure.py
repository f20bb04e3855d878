# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.start_failure import why

LATE = "not ready within 600 s: its port is closed"
GUARD = "llmgw-guard: rank 0 at 10.0.0.1:18002, one of 2 members of group abc\n"
WAITS = "llmgw-guard: waiting for rank 1 at 10.0.0.2:18012 (no answer) (group abc)\n"
TOGETHER = "llmgw-guard: all 2 members are here: starting the engine\n"
ENDED = "llmgw-guard: the group ends: the engine of rank {} at 10.0.0.{}:18002 ended with status 1\n"


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        ("", LATE),
        ("No space left on device\n", f"a disk that it writes to is full ({LATE}). Free space: "),
        ("ValueError: the moon is full\n", f"{LATE}; its log says: ValueError: the moon is full"),
        ("Loading safetensors checkpoint shards: 50% Completed\n", f"{LATE}; its log tells: loading weights, 50 %"),
        (f"{GUARD}{WAITS}", f"{LATE}; it waits for rank 1 at 10.0.0.2:18012 (no answer)"),
    ],
)
def test_a_failed_start_is_told_by_what_its_log_knows(log: str, sentence: str) -> None:
    assert why("vllm", LATE, log).startswith(sentence)
    assert not why("vllm", LATE, log).endswith(".")


OWN, OTHER = ENDED.format(0, 1), ENDED.format(1, 2)


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (f"{GUARD}{TOGETHER}CUDA out of memory\n{OWN}{GUARD}", "the device's memory ran out"),
        (f"{GUARD}{TOGETHER}CUDA out of memory\n{OWN}{GUARD}{WAITS}", "the device's memory ran out"),
        (f"{GUARD}{TOGETHER}ValueError: the moon is full\n{OWN}{GUARD}", f"{LATE}; its log says: ValueError: the moon"),
        (
            f"{GUARD}{TOGETHER}ValueError: the moon is full\n{OWN}{GUARD}{WAITS}",
            f"{LATE}; it waits for rank 1 at 10.0.0.2:18012 (no answer); its log",
        ),
        (f"{GUARD}{TOGETHER}{OTHER}RuntimeError: it hung up\n{GUARD}", "its group ended: the engine of rank 1 at"),
        (f"{GUARD}{TOGETHER}{OTHER}{GUARD}{WAITS}", "its group ended: the engine of rank 1 at"),
        (f"{GUARD}{TOGETHER}ValueError: the moon is full\n{OTHER}", f"{LATE}; its log says: ValueError: the moon"),
        (f"{GUARD}{TOGETHER}{OWN}", LATE),
        (
            f"CUDA out of memory\n{GUARD}{TOGETHER}{OWN}{GUARD}{TOGETHER}ValueError: it is new\n",
            f"{LATE}; its log says",
        ),
    ],
)
def test_a_member_names_its_own_error_before_that_of_another_and_of_its_last_start_before_others(
    log: str, says: str
) -> None:
    assert why("vllm", LATE, log).startswith(says)
