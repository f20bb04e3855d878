# SPDX-License-Identifier: Apache-2.0
"""The catalog's `models`: weights by name (C1)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from llmgw.catalog.schema.base import Entry, Expects, Later
from llmgw.catalog.schema.types import Gigabytes, HubId, OneOrMany, ServedName, WeightsPath, Word


class Weights(Entry):
    """How weights come to a node. llmgw only looks for them, unless this says otherwise."""

    fetch: Literal["never", "missing"] = Field(
        default="never",
        description="`missing`: a node that is given a replica and lacks the weights fetches them first, by `hf_id`, "
        "from the Hugging Face Hub or a mirror of it.",
        examples=["missing"],
    )


class Model(Entry):
    """Weights under a name, by either `hf_id` or `path`, for which llmgw looks on the nodes."""

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
    weights: Weights = Field(default_factory=Weights, description="How they come to a node.")
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
