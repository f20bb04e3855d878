# SPDX-License-Identifier: BSD-2-Clause
"""Values of a model's configuration by their several names: each maker has its own words. Private to llmgw and pure."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

_LARGEST = 2**53
# What a class takes where its file is silent: these are left out of files that were written by the class itself.
_DEFAULTS: Dict[str, Dict[str, Any]] = {
    "gemma": {"num_key_value_heads": 16, "head_dim": 256, "tie_word_embeddings": True},
    "gemma2": {"num_key_value_heads": 4, "head_dim": 256, "tie_word_embeddings": True, "sliding_window": 4096},
    "gemma3_text": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "sliding_window_pattern": 6,
        "tie_word_embeddings": True,
    },
    "cohere2": {"sliding_window": 4096, "sliding_window_pattern": 4, "tie_word_embeddings": True},
    "gpt_oss": {"num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128},
    "mistral": {"num_key_value_heads": 8},
    "mixtral": {"num_key_value_heads": 8},
    "qwen2": {"num_key_value_heads": 32},
    "qwen3": {"num_key_value_heads": 32, "head_dim": 128},
    "qwen3_next": {"num_key_value_heads": 2, "head_dim": 256, "full_attention_interval": 4},
}


class Values:
    """One object of a configuration. What has another type than it should, or makes no sense, is not there."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.kind = self.text("model_type") or ""

    def get(self, name: str) -> Any:
        """The value as it is, else what its class takes for it; None when neither is known."""
        value = self.document.get(name)
        return _DEFAULTS.get(self.kind, {}).get(name) if value is None else value

    def whole(self, *names: str) -> Optional[int]:
        """The first of these that is a whole number, not below 0."""
        found = (self.get(name) for name in names)
        return next((value for value in found if is_whole(value)), None)

    def text(self, *names: str) -> Optional[str]:
        """The first of these that is a word."""
        found = (self.document.get(name) for name in names)
        return next((value for value in found if isinstance(value, str) and value), None)

    def flag(self, name: str) -> Optional[bool]:
        """A value that is true or false."""
        value = self.get(name)
        return value if isinstance(value, bool) else None

    def each(self, name: str) -> Optional[List[Any]]:
        """A list that is not empty."""
        value = self.get(name)
        return value if isinstance(value, list) and value else None

    def inner(self, name: str) -> Values:
        """An object within; one without values when there is none."""
        value = self.get(name)
        return Values(value if isinstance(value, dict) else {})


def is_whole(value: object) -> bool:
    """Whether a value is a whole number that a size or a count may be."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST
