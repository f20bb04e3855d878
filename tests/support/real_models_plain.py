# SPDX-License-Identifier: Apache-2.0
"""Values of real models' configurations, each with where they were read, and what those models are known to need: the
models whose layers are all of one kind.

`AIC` is the package aiconfigurator-core 0.12.0 of PyPI, which holds copies of published config.json files under
model_configs/ and is built from github.com/ai-dynamo/aiconfigurator.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

AIC = "pypi aiconfigurator-core 0.12.0, model_configs"
SPLIT = {"tie_word_embeddings": False, "torch_dtype": "bfloat16"}


@dataclass(frozen=True)
class RealModel:
    """`kib_a_token`: of one further token while every layer still sees it, in 16 bits, uncut; `kib_of_far_tokens`: of
    one beyond every window. `parameters`: as the publisher counts them, where its configuration alone tells the size.
    """

    source: str
    config: dict[str, Any]
    kib_a_token: float
    kib_of_far_tokens: float
    layers: dict[str, int] = field(default_factory=dict)
    parameters: float | None = None


def _llama(layers: int, heads: int, hidden: int, wide: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": 8,
        "hidden_size": hidden,
        "intermediate_size": wide,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        **SPLIT,
    }


_DEEPSEEK = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "num_nextn_predict_layers": 1,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    **SPLIT,
}
PLAIN: dict[str, RealModel] = {
    "Llama-3.1-8B": RealModel(
        f"{AIC}/meta-llama--Meta-Llama-3.1-8B_config.json",
        _llama(32, 32, 4096, 14336),
        128,
        128,
        {"full": 32},
        8.030e9,
    ),
    "Llama-3.1-70B": RealModel(
        f"{AIC}/meta-llama--Meta-Llama-3.1-70B_config.json",
        _llama(80, 64, 8192, 28672),
        320,
        320,
        {"full": 80},
        70.554e9,
    ),
    "Qwen3-32B": RealModel(
        f"{AIC}/Qwen--Qwen3-32B_config.json",
        {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "num_hidden_layers": 64,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "hidden_size": 5120,
            "intermediate_size": 25600,
            "vocab_size": 151936,
            "max_position_embeddings": 40960,
            "max_window_layers": 64,
            "sliding_window": None,
            "use_sliding_window": False,
            **SPLIT,
        },
        256,
        256,
        {"full": 64},
        32.762e9,
    ),
    "Qwen3-235B-A22B": RealModel(
        f"{AIC}/Qwen--Qwen3-235B-A22B_config.json",
        {
            "architectures": ["Qwen3MoeForCausalLM"],
            "model_type": "qwen3_moe",
            "num_hidden_layers": 94,
            "num_attention_heads": 64,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "hidden_size": 4096,
            "intermediate_size": 12288,
            "vocab_size": 151936,
            "max_position_embeddings": 40960,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 1536,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
            "use_sliding_window": False,
            **SPLIT,
        },
        188,
        188,
        {"full": 94},
        235.094e9,
    ),
    "DeepSeek-V3": RealModel(
        f"{AIC}/deepseek-ai--DeepSeek-V3_config.json", _DEEPSEEK, 68.625, 68.625, {"mla": 61}, None
    ),
    "DeepSeek-V3.2": RealModel(
        f"{AIC}/deepseek-ai--DeepSeek-V3.2_config.json",
        {
            **_DEEPSEEK,
            "architectures": ["DeepseekV32ForCausalLM"],
            "model_type": "deepseek_v32",
            "index_head_dim": 128,
        },
        76.488,
        76.488,
        {"mla": 61},
    ),
    "Mixtral-8x7B": RealModel(
        f"{AIC}/mistralai--Mixtral-8x7B-v0.1_config.json",
        {
            "architectures": ["MixtralForCausalLM"],
            "model_type": "mixtral",
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "vocab_size": 32000,
            "max_position_embeddings": 32768,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "sliding_window": None,
            **SPLIT,
        },
        128,
        128,
        {"full": 32},
        46.703e9,
    ),
    "Mistral-Small-24B": RealModel(
        "https://huggingface.co/mistralai/Mistral-Small-24B-Instruct-2501/blob/main/config.json, found described",
        {
            "architectures": ["MistralForCausalLM"],
            "model_type": "mistral",
            "num_hidden_layers": 40,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "hidden_size": 5120,
            "intermediate_size": 32768,
            "vocab_size": 131072,
            "max_position_embeddings": 32768,
            "sliding_window": None,
            **SPLIT,
        },
        160,
        160,
        {"full": 40},
        23.57e9,
    ),
}
