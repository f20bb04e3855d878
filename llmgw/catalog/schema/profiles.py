# SPDX-License-Identifier: Apache-2.0
"""The catalog's `profiles`: ways to serve a model (C2)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from llmgw.catalog.schema.base import Entry, Expects
from llmgw.catalog.schema.durations import PositiveSeconds
from llmgw.catalog.schema.types import (
    AbsolutePath,
    Count,
    DeviceClassName,
    Engine,
    Gigabytes,
    LabelKey,
    Many,
    Name,
    OneOrMany,
    SecretName,
    SlowPath,
    Table,
    Text,
    VariableName,
    Word,
)


class Profile(Entry):
    """One way to serve one model: engine, devices, parallelism, limits."""

    engine: Engine = Field(
        description="What serves the model. `vllm` and `sglang` cut models over devices and nodes, `llama.cpp` serves "
        "GGUF files on one node, `sim` only pretends to: it is for tests and first steps.",
        examples=["llama.cpp"],
    )
    model: Name = Field(description="Name of an entry of `models`.", examples=["qwen3-32b"])
    devices: OneOrMany[DeviceClassName] = Field(
        default=("cpu",),
        min_length=1,
        description="`cpu`, or one or more device classes, the preferred first. One replica never mixes classes. "
        "`llmgw facts show` lists the classes of the fleet.",
        examples=[["h200-141g", "h100-80g"]],
    )
    gpus: Count | None = Field(
        default=None,
        description="Devices on each node. Default: `tensor_parallel` x `pipeline_parallel` x `data_parallel` / "
        "`nodes`; 0 on `cpu`.",
        examples=[8],
    )
    nodes: Count = Field(default=1, description="Nodes that one replica spans.", examples=[2])
    tensor_parallel: Count | None = Field(
        default=None,
        description="Devices that share each layer. Default: `gpus` / `data_parallel`, or 1 where `pipeline_parallel` "
        "is given.",
        examples=[8],
    )
    pipeline_parallel: Count | None = Field(
        default=None,
        description="Stages that the layers are cut into. Default: `nodes`, or 1 where `tensor_parallel` is given.",
        examples=[2],
    )
    data_parallel: Count = Field(
        default=1,
        description="Copies of the model inside one replica, on one node, each cut over devices of its own. For "
        "mixtures of experts: of other models several replicas do the same, and fail apart.",
        examples=[4],
    )
    expert_parallel: bool = Field(
        default=False,
        description="Whether whole experts are spread over the devices instead of each being cut over all of them.",
        examples=[True],
    )
    quantization: Word | None = Field(
        default=None,
        description="The engine's name of the method. Leave it out for weights that are stored quantized.",
        examples=["fp8"],
    )
    kv_cache_dtype: Word | None = Field(
        default=None, description="The engine's name of the type of the KV cache.", examples=["fp8_e4m3"]
    )
    allow_slow_path: OneOrMany[SlowPath] = Field(
        default=(),
        description="`quantization` or `kv_cache_dtype`: replicas may go to devices where the engine has only a slower "
        "way of it, such as weights kept in FP8 and computed with in 16 bits below compute capability 8.9. Without it "
        "such devices are refused.",
        examples=["quantization", ["quantization", "kv_cache_dtype"]],
    )
    max_model_len: Count | None = Field(
        default=None, description="Tokens of context for one request. Default: the model's own.", examples=[32768]
    )
    memory_utilization: Annotated[float | None, Expects("a number above 0, at most 1")] = Field(
        default=None, gt=0, le=1, description="Share of each device's memory that the engine may take.", examples=[0.9]
    )
    min_memory_gb: Gigabytes | None = Field(
        default=None,
        description="Host memory that each node must have for a replica (GB of 10^9 bytes). Default: any will do.",
        examples=[24],
    )
    min_free_disk_gb: Gigabytes | None = Field(
        default=None, description="Free disk space that a node must have (GB of 10^9 bytes).", examples=[100]
    )
    max_memory_gb: Gigabytes | None = Field(
        default=None,
        description="Host memory (GB of 10^9 bytes) beyond which the kernel ends a member of a replica. Default: no "
        "limit.",
        examples=[64],
    )
    bind_numa: bool = Field(
        default=True,
        description="Whether a member whose devices all hang on one NUMA node runs on that node's processors and "
        "memory.",
        examples=[False],
    )
    node_selector: Table[LabelKey, Text] = Field(
        default_factory=dict,
        description="Labels that a node must carry (`llmgw_labels` of the inventory), all of them.",
        examples=[{"zone": "a"}],
    )
    args: Many[Text] = Field(
        default=(),
        max_length=500,
        description="Further arguments of the engine, one item each, after those that llmgw writes.",
        examples=[["--enable-prefix-caching"]],
    )
    env: Table[VariableName, Text] = Field(
        default_factory=dict,
        description="Environment of the engine. No secrets: it is shown in plans and diffs.",
        examples=[{"VLLM_LOGGING_LEVEL": "INFO"}],
    )
    secrets: Table[VariableName, SecretName] = Field(
        default_factory=dict,
        description="Variables of the engine that get a secret's value on the node: variable and name of the secret "
        "(a key of `llmgw_secrets`).",
        examples=[{"VLLM_API_KEY": "engine-key"}],
    )
    threads: Count | None = Field(default=None, description="CPU threads of the engine.", examples=[8])
    parallel_requests: Count | None = Field(
        default=None,
        description="Requests that a replica works on at a time. Default: the engine's own.",
        examples=[64],
    )
    lora: Table[Name, AbsolutePath] = Field(
        default_factory=dict, description="LoRA adapters: name and path.", examples=[{"support": "/srv/lora/support"}]
    )
    start_timeout: PositiveSeconds = Field(
        default=60, description="Until the process answers at all.", examples=["60s"]
    )
    ready_timeout: PositiveSeconds | None = Field(
        default=None,
        description="Until the weights are served under the expected name. Default: at least 10 minutes, and longer "
        "for large weights and slow disks.",
        examples=["10m"],
    )
