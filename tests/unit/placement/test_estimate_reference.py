# SPDX-License-Identifier: Apache-2.0
"""docs/reference/memory-estimate.md says of models and engines what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmgw.capability.memory_habits import habits_of
from llmgw.placement.memory.kv import Cut, sequence_cost
from llmgw.placement.memory.parameters import tensor_bytes
from llmgw.placement.memory.reserve import MIB, reserve
from tests.support.memory_models import architecture
from tests.support.real_models import MODELS

TEXT = (Path(__file__).parents[3] / "docs/reference/memory-estimate.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_real_model_has_the_row_that_is_reckoned(name: str) -> None:
    found, size = architecture(name), tensor_bytes(architecture(name))
    cost = sequence_cost(found, Cut())
    assert cost is not None
    near, state = (cost.low.bytes(64) - cost.low.bytes(0)) / 64 / 1024, cost.low.constant / MIB
    published = MODELS[name].parameters
    cells = (
        name,
        f"{near:g}",
        f"{cost.low.token / 1024:g}",
        f"{state:.0f}" if state else "",
        "unknown" if size is None else f"{size.likely / 1e9:.1f}",
        f"{published * 2 / 1e9:.1f}" if published else "",
    )
    assert f"| {' | '.join(cells)} |" in TEXT


@pytest.mark.parametrize(
    ("engine", "row"),
    [
        ("vllm", "| vLLM | {share} |"),
        ("sglang", "| SGLang | {share} likely, {most} at most,"),
        ("llama.cpp", "| llama.cpp | {share} likely, all of it at most;"),
    ],
)
def test_an_engine_has_the_share_that_is_reckoned_with(engine: str, row: str) -> None:
    habits = habits_of(engine)
    assert habits is not None
    assert row.format(share=habits.share, most=habits.most) in TEXT


def test_the_reserve_is_the_one_that_is_reckoned_with() -> None:
    small, large = reserve(1024), reserve(100 * 1024)
    assert [one / MIB / 1024 for one in (small.low, small.likely, small.high)] == [0.5, 2, 4]
    assert (large.likely / MIB / 1024, large.high / MIB / 1024) == (6, 10)
    experts = reserve(100 * 1024, experts=True)
    assert (experts.likely / MIB / 1024, experts.high / MIB / 1024) == (9, 12)
    assert "likely 2 GiB or 6 % of the device (9 % for models with experts), whichever is more" in TEXT
    assert "0.5 GiB low;" in TEXT
    assert "high 4 GiB or 10 % (12 %) |" in TEXT
    layers = reserve(None, whole_layers=True)
    assert [round(one / MIB / 1024, 1) for one in (layers.low, layers.likely, layers.high)] == [0.3, 1, 3]
    assert "| 0.3, 1 and 3 GiB |" in TEXT
    outside = reserve(None, outside=True)
    assert [one / MIB / 1024 for one in (outside.low, outside.likely, outside.high)] == [0, 1.5, 3]
    assert "| 0, 1.5 and 3 GiB; activations and graphs come out of the rest |" in TEXT
