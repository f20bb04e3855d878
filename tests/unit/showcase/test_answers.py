# SPDX-License-Identifier: Apache-2.0
"""What llmgw answers about the showcase, why and what if, as golden texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import golden
from tests.support.fleet_directory import Called

FIXTURES = Path(__file__).parents[2] / "fixtures/showcase/answers"
QUESTIONS = {
    "why-archive": ("--why", "archive"),
    "why-batch-summaries": ("--why", "batch-summaries"),
    "why-chat-eu": ("--why", "chat-eu"),
    "why-offline-on-cpu-4": ("--why", "offline/2", "--node", "cpu-4"),
    "why-kimi-k2": ("--why", "kimi-k2"),
    "what-if-a-tray-is-gone": ("--without-node", "gb200-03"),
    "what-if-a-machine-is-drained": ("--drain", "h100-a3"),
    "what-if-more-is-wanted": ("--scale", "chat-70b=10"),
    "what-if-there-were-more": ("--with-nodes", "1xl40sx4"),
    "smallest": ("--smallest", "l40sx4"),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_answer_is_the_golden_one(
    llmgw: Callable[..., Called], monkeypatch: pytest.MonkeyPatch, name: str, *, update_golden: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    question = QUESTIONS[name]
    called = llmgw("plan", "-i", "inventory/showcase", *question)
    assert called.status in (0, 3), called.err
    text = f"$ llmgw plan -i inventory/showcase {' '.join(question)}\n{called.out}"
    golden.compare(FIXTURES / name, {"answer.txt": text}, update=update_golden)


def test_there_is_no_answer_without_a_question() -> None:
    assert sorted(path.name for path in FIXTURES.iterdir()) == sorted(QUESTIONS)
