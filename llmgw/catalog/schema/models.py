# SPDX-License-Identifier: Apache-2.0
"""The catalog's `models`: weights by name (C1)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from llmgw.catalog.schema.base import Entry, Expects, Later
from llmgw.catalog.schema.types import Gigabytes, HubId, OneOrMany, ServedName, WeightsPath, Word


class Model(Entry):
    """Weights under a name, by either `hf_id` or `path`. llmgw looks for them on the nodes; it does not bring them."""

    hf_id: HubId | None = Field(
        default=None,
        description="Hugging Face id. Nodes look for it in their model directories, in cache or plain layout.",
        examples=["Qwen/Qwen3-32B"],
    )
    path: WeightsPath | None = Field(
        default=None,
        description="File or directory of the weights: absolute, or below one of a node's `llmgw_model_dirs`.",
        examples=["/srv/models/SmolLM2-135M-Instruct.Q4_1.gguf"],
    )
    revision: Word | None = Field(
        default=None,
        description="Branch, tag or commit of `hf_id`. Without it any revision that a node holds will do.",
        examples=["main"],
    )
    aliases: OneOrMany[ServedName] = Field(
        default=(),
        description="Names that every service of this model answers to beside its own.",
        examples=[["qwen3"]],
    )
    size_gb: Gigabytes | None = Field(
        default=None,
        description="Size of the weights on disk, where no node holds them to read it from: whether they fit a device.",
        examples=[65.5],
    )
    parameters_b: Annotated[
        float | None,
        Expects("a number of billions"),
        Later("nothing reckons with the number of parameters yet"),
    ] = Field(
        default=None,
        gt=0,
        le=1_000_000,
        description="Parameters in billions, where they cannot be read.",
        examples=[32.8],
    )
