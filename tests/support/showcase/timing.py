# SPDX-License-Identifier: Apache-2.0
"""When the parts of the showcase's facts were read, and how long that took."""

from __future__ import annotations

from collections.abc import Mapping

from llmgw.nodekit import contract, parts
from tests.support.showcase.invented import NOW, between
from tests.support.showcase.troubles import AWAY

_SECONDS = {"gpus": 420, "xids": 90, "rdma": 60, "subnets": 2300, "storage": 8, "weights": 310, "engines": 40}
"""About how long the parts take, in milliseconds; the others take a few."""
_ORDER = (
    *("system", "memory", "cpu", "units", "state", "gpus", "topology", "xids", "imex", "rdma", "subnets"),
    *("storage", "weights", "engines", "gateway"),
)


def read_at(name: str) -> float:
    """When a machine was read: one that does not answer now, shortly before it was first tried in vain."""
    away = AWAY[name][0] if name in AWAY else 0
    return NOW - away - between(12, 48, name, "read")


def probes(name: str, there: Mapping[str, bool]) -> tuple[contract.Probe, ...]:
    """How each part went; `there` says of parts that not every machine has whether this one does."""
    assert set(_ORDER) == set(parts.ALL)
    return tuple(
        contract.Probe(part, _seconds(name, part), ok=True, at=read_at(name))
        for part in _ORDER
        if there.get(part, True)
    )


def _seconds(name: str, part: str) -> float:
    return round(_SECONDS.get(part, 4) * between(80, 125, name, part) / 100_000, 4)
