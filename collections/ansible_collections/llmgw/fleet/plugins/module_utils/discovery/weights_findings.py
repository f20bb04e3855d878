# SPDX-License-Identifier: BSD-2-Clause
"""What kept the search for weights from seeing all of them (D12). Private to llmgw and pure."""

from __future__ import annotations

from typing import Iterable, Iterator, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import storage_findings
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.printable import printable
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import Bounds, Outcome

_NAMED = 5


def judge(outcome: Outcome, bounds: Bounds) -> tuple[Finding, ...]:
    """One finding for each reason, and for each model directory that it concerns."""
    return (
        *(storage_findings.hangs(path) for path in outcome.hanging),
        *(_unfinished(root) for root in sorted(outcome.unfinished)),
        *_too_many(outcome, bounds),
        *_denied(outcome.denied),
        *_failed(outcome.failed),
    )


def _unfinished(root: str) -> Finding:
    return Finding(
        code="weights-search-cut",
        severity="warn",
        message=f"{root} was not searched to its end: it is too large or too slow, so weights in it may be unknown",
        remedy="Name the directories in which models lie, not one far above them (llmgw_model_dirs).",
        subject=root,
    )


def _too_many(outcome: Outcome, bounds: Bounds) -> Iterator[Finding]:
    if outcome.too_many or len(outcome.seen) > bounds.most:
        yield Finding(
            code="weights-too-many",
            severity="warn",
            message=f"there are more than {bounds.most} models, and only so many are reported",
            remedy="Name fewer model directories (llmgw_model_dirs), or remove models that nobody serves.",
        )


def _denied(paths: Iterable[str]) -> Iterator[Finding]:
    paths = sorted(map(printable, paths))
    if paths:
        yield Finding(
            code="weights-denied",
            severity="info",
            message=f"directories that the user who looks may not enter: {len(paths)}, the first {paths[0]}",
            remedy="Look as root (become), or let this user read them.",
            subject=paths[0],
            evidence=tuple(paths[:_NAMED]),
        )


def _failed(failed: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    told = [f"{printable(path)}: {why}" for path, why in sorted(failed)]
    if told:
        yield Finding(
            code="weights-unreadable",
            severity="warn",
            message=f"directories that could not be looked at: {len(told)}, the first {told[0]}",
            subject=printable(min(failed)[0]),
            evidence=tuple(told[:_NAMED]),
        )
