# SPDX-License-Identifier: Apache-2.0
"""Models and profiles for tests of the memory estimate."""

from __future__ import annotations

import json
from typing import Any

from llmgw.model.ids import DeviceClass, EngineKind, ModelName, ProfileName
from llmgw.model.replica import ModelSpec, ProfileSpec
from llmgw.nodekit import contract, read_model_config
from llmgw.placement.memory.model_facts import KnownModel
from llmgw.placement.memory.span import exactly
from llmgw.placement.memory.weight_bytes import Tensors
from tests.support.real_models import MODELS

H100 = DeviceClass("h100-80g")
H100_MIB = 81559
LLAMA_70B_BYTES = 141_107_412_992


def architecture(name: str) -> contract.ModelArchitecture:
    """Of a real model."""
    return read_model_config(json.dumps(MODELS[name].config).encode())


def known(name: str, size_bytes: int, **more: Any) -> KnownModel:
    """A real model whose tensors have that size."""
    return KnownModel(Tensors(exactly(size_bytes), architecture(name)), "test", **more)


def llama_70b(**more: Any) -> KnownModel:
    """Llama 70B in 16 bits."""
    return known("Llama-3.1-70B", LLAMA_70B_BYTES, **more)


def profile(tp: int = 1, pp: int = 1, engine: str = "vllm", **more: Any) -> ProfileSpec:
    """A profile on one class, cut so on one node."""
    values: dict[str, Any] = {
        "name": ProfileName("p"),
        "engine": EngineKind(engine),
        "model": ModelSpec(ModelName("m"), hf_id="org/m"),
        "devices": (H100,),
        "gpus": tp * pp,
        "tensor_parallel": tp,
        "pipeline_parallel": pp,
    }
    return ProfileSpec(**(values | more))
