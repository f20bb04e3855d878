# SPDX-License-Identifier: Apache-2.0
"""Single losses for people and as JSON values: which would leave a service short, which would take one down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from llmgw.model.failure import Failure

FAILURES_FORMAT = 1
_NAMES_SHOWN = 8


def failure_lines(failures: Sequence[Failure]) -> list[str]:
    """Losses that leave a service short, then those that take one down until it is placed anew; said once for all that
    mean the same.
    """
    return list(_lines(failures))


def failures_document(failures: Iterable[Failure]) -> dict[str, Any]:
    """All losses as JSON values."""
    return {
        "format_version": FAILURES_FORMAT,
        "failures": [
            {
                "kind": one.kind,
                "name": one.name,
                "nodes": list(one.nodes),
                "losses": [
                    {
                        "service": loss.service,
                        "replicas": loss.replicas,
                        "lost": loss.lost,
                        "short": loss.short,
                        "down": loss.down,
                    }
                    for loss in one.losses
                ],
            }
            for one in failures
        ],
    }


def _lines(failures: Sequence[Failure]) -> Iterator[str]:
    for kind in sorted({one.kind for one in failures}):
        those = [one for one in failures if one.kind == kind]
        what = "NVLink domain" if kind == "domain" else kind
        short = [one for one in those if one.short]
        if not short:
            yield f"Any one {what} of the {len(those)} that hold replicas may be lost: all of them fit on the rest."
        for told, names in _alike((one, "; ".join(_short(one))) for one in short):
            yield f"! {what} {_some(names)}: {told}"
        down = [one for one in those if any(loss.down for loss in one.losses)]
        for told, names in _alike((one, ", ".join(loss.service for loss in one.losses if loss.down)) for one in down):
            yield f"* {what} {_some(names)}: nothing would serve {told} until it runs elsewhere"
    if not failures:
        yield "No node holds a replica."


def _short(failure: Failure) -> Iterator[str]:
    for loss in failure.short:
        yield f"{loss.service} would have {loss.replicas - loss.short} of {loss.replicas}"


def _alike(told: Iterable[tuple[Failure, str]]) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for failure, sentence in told:
        found.setdefault(sentence, []).append(failure.name)
    return list(found.items())


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more
