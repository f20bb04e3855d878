# SPDX-License-Identifier: BSD-2-Clause
"""Filesystems (D11), the weights on them (D12), and what models they are of (P13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple


@dataclass(frozen=True)
class Filesystem:
    """One mounted filesystem that matters (D11): holds a model directory, the state directory or the root."""

    mount_point: str
    source: Optional[str] = None
    type: Optional[str] = None
    total_bytes: Optional[int] = None
    free_bytes: Optional[int] = None
    shared: Optional[bool] = None
    read_only: Optional[bool] = None
    transport: Optional[str] = None  # of the block device below (pcie, sata, rdma, tcp, fc, ...) or of the share
    remote: Optional[bool] = None  # its device is reached over a network: not shared, and as fast as that network
    answers: Optional[bool] = None  # False: it hangs, or has nothing but errors
    directories: Tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelArchitecture:
    """What a memory estimate needs to know of a model (P13), from its `config.json` or the metadata of a GGUF file.

    Layers are counted by what they keep of a sequence: `full` the whole context, `sliding` and `chunked` no more than
    their window, `mla` one latent row a token, `state` a state of constant size (Mamba, linear attention, short
    convolutions). A layer may be of two kinds, or of none. All counts are None where one kind is not understood; those
    of kinds that a model does not have are 0. `window` and `sliding_*` are of sliding and chunked layers; where the
    latter is None they are like the others.
    """

    name: Optional[str] = None  # class in config.json (Qwen3ForCausalLM), `general.architecture` of a GGUF file
    layers: Optional[int] = None
    full_layers: Optional[int] = None
    sliding_layers: Optional[int] = None
    chunked_layers: Optional[int] = None
    mla_layers: Optional[int] = None
    state_layers: Optional[int] = None
    window: Optional[int] = None  # tokens
    attention_heads: Optional[int] = None
    kv_heads: Optional[int] = None
    head_dim: Optional[int] = None
    v_head_dim: Optional[int] = None  # where values are of another size than keys
    sliding_kv_heads: Optional[int] = None
    sliding_head_dim: Optional[int] = None
    hidden_size: Optional[int] = None
    intermediate_size: Optional[int] = None  # of a dense layer
    vocab_size: Optional[int] = None
    max_position: Optional[int] = None  # tokens that it was made for
    kv_lora_rank: Optional[int] = None
    q_lora_rank: Optional[int] = None
    qk_rope_head_dim: Optional[int] = None
    qk_nope_head_dim: Optional[int] = None
    index_head_dim: Optional[int] = None  # of the keys by which sparse attention chooses
    state_values: Optional[int] = None  # of one layer and sequence: the recurrent state
    conv_values: Optional[int] = None  # of one layer and sequence: the convolution's last inputs
    state_dtype: Optional[str] = None
    experts: Optional[int] = None
    experts_per_token: Optional[int] = None
    shared_experts: Optional[int] = None
    expert_intermediate_size: Optional[int] = None
    moe_layers: Optional[int] = None
    tie_embeddings: Optional[bool] = None
    dtype: Optional[str] = None  # bfloat16, float16, float32
    quantization: Optional[str] = None  # method in quantization_config: fp8, awq, compressed-tensors, mxfp4
    weight_bits: Optional[int] = None  # of one quantized value, without its scales
    kv_cache_bits: Optional[int] = None  # that the weights were calibrated for
    predict_layers: Optional[int] = None  # further layers for speculation, which engines load only for that


@dataclass(frozen=True)
class Weights:
    """Weights of one model seen in a model directory (D12); `complete` is None when it could not be judged.

    `model` is a Hugging Face id where the layout has it, else the path below the model directory, and a file's name for
    GGUF. Of several formats side by side only the one that an engine loads is counted.
    """

    model: str
    path: str  # what an engine is given: a directory, or the first file of a GGUF
    layout: Optional[str] = None  # hf-cache | directory | gguf | ollama
    revision: Optional[str] = None  # commit
    size_bytes: Optional[int] = None  # of the weight files that are there
    complete: Optional[bool] = None
    missing: Tuple[str, ...] = ()  # the first of them, when there are many
    missing_count: Optional[int] = None
    files: Optional[int] = None  # weight files that are there
    tensor_bytes: Optional[int] = None  # sum of the tensors, from the headers
    mount_point: Optional[str] = None
    shared: Optional[bool] = None
    format: Optional[str] = None  # safetensors | gguf | pytorch
    repository: Optional[str] = None  # Hugging Face id of the repository that a GGUF file was fetched from
    refs: Tuple[str, ...] = ()  # branches and tags that name this commit here
    architecture: Optional[ModelArchitecture] = None
