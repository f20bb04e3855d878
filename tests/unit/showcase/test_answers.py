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
    "why-archive.txt": ("--why", "archive"),
    "why-batch-summaries.txt": ("--why", "batch-summaries"),
    "why-chat-eu.txt": ("--why", "chat-eu"),
    "why-offline-on-cpu-4.txt": ("--why", "offline/2", "--node", "cpu-4"),
    "why-kimi-k2.txt": ("--why", "kimi-k2"),
    "what-if-a-tray-is-gone.txt": ("--without-node", "gb200-03"),
    "what-if-a-machine-is-drained.txt": ("--drain", "h100-a3"),
    "what-if-more-is-wanted.txt": ("--scale", "chat-70b=10"),
    "what-if-there-were-more.txt": ("--with-nodes", "1xl40sx4"),
    "smallest.txt": ("--smallest", "l40sx4"),
}


def test_the_answers_are_the_golden_ones(
    llmgw: Callable[..., Called], monkeypatch: pytest.MonkeyPatch, *, update_golden: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    answers = {}
    for name, question in QUESTIONS.items():
        called = llmgw("plan", "-i", "inventory/showcase", *question)
        assert called.status in (0, 3), called.err
        answers[name] = f"$ llmgw plan -i inventory/showcase {' '.join(question)}\n{called.out}"
    golden.compare(FIXTURES, answers, update=update_golden)
