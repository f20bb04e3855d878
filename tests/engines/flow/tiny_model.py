# SPDX-License-Identifier: Apache-2.0
"""Makes a tiny Llama with random weights, its tokenizer and a chat template: `python tiny_model.py FOLDER`.

Runs under the Python of a vLLM that the tests installed, which brings torch and transformers. It says nothing sensible,
but every part of a real checkpoint is there.
"""

from __future__ import annotations

import sys
from pathlib import Path

TEXT = (
    "A node serves a model. A gateway sends each request to a replica that is ready, and waits while it drains. "
    "0123456789 The quick brown fox jumps over the lazy dog! How many lamps are lit on the way to the harbour?"
)
CHAT = "{% for m in messages %}<|{{ m.role }}|> {{ m.content }} {% endfor %}<|assistant|>"
VOCABULARY = 384
CONTEXT = 32768


def make(folder: Path) -> None:
    """Writes config.json, model.safetensors, tokenizer and chat template into the folder."""
    import torch  # type: ignore[import-not-found] # noqa: PLC0415 - only in the engine's own environment
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # type: ignore[import-not-found] # noqa: PLC0415
    from transformers import (  # type: ignore[import-not-found] # noqa: PLC0415
        LlamaConfig,
        LlamaForCausalLM,
        PreTrainedTokenizerFast,
    )

    torch.manual_seed(7)
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet, show_progress=False
    )
    words.train_from_iterator([TEXT], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        bos_token_id=0,
        eos_token_id=1,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
