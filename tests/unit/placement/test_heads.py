# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.model.ids import ModelName
from llmgw.model.node import FleetSnapshot
from llmgw.model.placement import Unplaced
from llmgw.model.replica import ModelSpec
from llmgw.nodekit import contract
from llmgw.placement.assign import place
from tests.support.fleets import ENGINES, catalog, fleet, node, profile, service

CLASS = "h200-141g"
MODEL = ModelSpec(ModelName("odd"), hf_id="org/odd")
VLLM = contract.Engine("vllm", ("/opt/vllm",), "0.33.0", runnable=True)


def there(heads: int | None) -> FleetSnapshot:
    architecture = contract.ModelArchitecture(attention_heads=heads)
    weights = contract.Weights("org/odd", "/models/odd", complete=True, architecture=architecture, tensor_bytes=10**9)
    return fleet(node("n1", gpus=8, engines=(*ENGINES, VLLM), weights=(weights,)))


def unplaced(heads: int | None, tensor: int, engine: str = "vllm") -> tuple[Unplaced, ...]:
    wanted = profile("tp", engine, (CLASS,), tensor, tensor_parallel=tensor, model=MODEL)
    if engine == "llama.cpp":
        wanted = replace(wanted, model=ModelSpec(ModelName("odd"), path="/models/odd"))
    return place(catalog(service("chat", 1, (wanted,))), there(heads)).placement.unplaced


def test_heads_that_do_not_divide_are_refused_with_what_does() -> None:
    (one,) = unplaced(56, 6)
    (rejection,) = [found for found in one.rejections if found.constraint == "heads"]
    assert rejection.message == (
        "odd has 56 attention heads, which tensor_parallel 6 does not divide (1, 2, 4, 7, 8, 14 do)"
    )
    assert (rejection.has, rejection.needs) == (56, 6)


@pytest.mark.parametrize(("heads", "tensor", "engine"), [(56, 8, "vllm"), (None, 6, "vllm"), (56, 6, "llama.cpp")])
def test_heads_that_divide_or_are_unknown_or_are_not_shared_refuse_nothing(
    heads: int | None, tensor: int, engine: str
) -> None:
    assert not [
        found for one in unplaced(heads, tensor, engine) for found in one.rejections if found.constraint == "heads"
    ]
