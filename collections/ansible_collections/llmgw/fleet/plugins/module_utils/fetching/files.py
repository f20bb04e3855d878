# SPDX-License-Identifier: BSD-2-Clause
"""Which files of a repository an engine needs (D12). Private to llmgw and pure.

The weights are chosen as discovery chooses them, so that what is fetched is what counts as complete.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Collection, Iterable

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import weights_names

BESIDE_WEIGHTS = (
    ("*.json", "configurations go by many names: config, generation_config, quantize_config, hf_quant_config, modules"),
    ("*.jinja", "chat templates; they may lie in additional_chat_templates/"),
    ("*.txt", "vocabularies and merges of older tokenizers"),
    ("*.model", "sentencepiece tokenizers"),
    ("*.model.v*", "tokenizers of Mistral"),
    ("*.tiktoken", "tokenizers of Qwen and others"),
    ("*.py", "code that engines run only when the profile's args say --trust-remote-code"),
    ("[0-9]_*/*", "the layers behind an embedding model: 1_Pooling/config.json, 2_Dense/model.safetensors"),
)
"""What is fetched beside the weights, by shell pattern, and why. A pattern without `/` matches at the top, and in
additional_chat_templates/."""
LEFT_OUT = (
    ("*.index.json", "the index of a format that is not the one that is fetched"),
    ("params.json", "the configuration of consolidated weights: with it, engines look for those"),
    ("[0-9]_*/*.bin", "the same layers as in their safetensors"),
    ("[0-9]_*/*.onnx", "the same layers for other engines"),
)
"""What is left out of those all the same. Nothing else is fetched: neither `original/`, `*.pth` and `*.bin` beside
safetensors, which are the same weights again, nor `onnx/`, `metal/`, `openvino/`, which are other engines'."""
_TEMPLATES = "additional_chat_templates/"


class NoWeights(Exception):  # noqa: N818 - of a repository, not of a program
    """The repository has no weights that an engine loads by the repository's id; the message says what it has."""


def chosen_group(names: Collection[str]) -> weights_names.Group:
    """The format of the weights that engines load. Raises NoWeights."""
    groups = [group for group in weights_names.groups(names) if group.files]
    if not groups:
        ggufs = [name for name in names if weights_names.is_gguf(name)]
        if ggufs:
            raise NoWeights(f"it has {len(ggufs)} GGUF files and nothing else: nothing tells which of them is wanted")
        raise NoWeights("it has neither *.safetensors nor pytorch_model*.bin")
    return groups[0]


def beside(names: Collection[str], group: weights_names.Group) -> tuple[str, ...]:
    """What engines need besides the weights, by name: it is small, and tells which weights are needed."""
    return tuple(sorted(name for name in names if _is_beside(name, group)))


def weights(names: Collection[str], group: weights_names.Group, indexed: Iterable[str] | None) -> tuple[str, ...]:
    """The files that hold the tensors, by name. `indexed`: those that the index of the shards names, if there is one.

    An index may name a file that the repository lacks; what is there is fetched, and discovery says what is missing.
    """
    wanted = tuple(indexed or ()) or weights_names.shards(group.files)
    return tuple(sorted(set(wanted).intersection(names) or group.files))


def _is_beside(name: str, group: weights_names.Group) -> bool:
    if name in (group.config, group.index):
        return True
    below = name[len(_TEMPLATES) :] if name.startswith(_TEMPLATES) else name
    if any(_matches(below, pattern) for pattern, _reason in LEFT_OUT) or name in group.files:
        return False
    return weights_names.is_read(name) or any(_matches(below, pattern) for pattern, _reason in BESIDE_WEIGHTS)


def _matches(name: str, pattern: str) -> bool:
    return name.count("/") == pattern.count("/") and fnmatchcase(name, pattern)
