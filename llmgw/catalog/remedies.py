# SPDX-License-Identifier: Apache-2.0
"""What to write instead of a wrong key or value: guesses that are right often enough to be worth a line."""

from __future__ import annotations

import re
from typing import get_args, get_origin

from llmgw.catalog.problem import nearest
from llmgw.catalog.scalars import written
from llmgw.catalog.schema.base import Entry, Expects
from llmgw.catalog.schema.document import Slot
from llmgw.catalog.schema.words import words

_OLD_TRUTHS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_UNITS = ("GB", "MiB")
_NUMBER = re.compile(r"\s*(-?[0-9][0-9_,]*(\.[0-9]+)?)")
_HUB = "https://huggingface.co/"
_SYNONYMS = {
    "tp": "tensor_parallel",
    "tensor_parallel_size": "tensor_parallel",
    "tp_size": "tensor_parallel",
    "pp": "pipeline_parallel",
    "pipeline_parallel_size": "pipeline_parallel",
    "pp_size": "pipeline_parallel",
    "num_gpus": "gpus",
    "gpu_memory_utilization": "memory_utilization",
    "mem_fraction_static": "memory_utilization",
    "ctx_size": "max_model_len",
    "context_length": "max_model_len",
    "max_num_seqs": "parallel_requests",
    "parallel": "parallel_requests",
    "memory_gb": "min_memory_gb",
    "min_free_disk": "min_free_disk_gb",
    "min_memory": "min_memory_gb",
    "served_model_name": "served_name",
    "extra_args": "args",
    "environment": "env",
    "repo": "hf_id",
    "hf": "hf_id",
    "lora_modules": "lora",
    "ports": "port_range",
}
"""What engines and other tools call it."""


def synonym(key: str) -> str:
    """The catalog's word for another tool's, or the key itself."""
    return _SYNONYMS.get(key.lower().replace("-", "_"), key)


def meant_key(key: str, entry: type[Entry]) -> str | None:
    """The key of an entry that an unknown key most likely stands for."""
    word = synonym(key)
    return word if word in entry.model_fields else nearest(key, entry.model_fields)


def is_hidden(slot: Slot) -> bool:
    """Whether no message may repeat what is there."""
    expects = slot.mark(Expects)
    return expects is not None and expects.hidden


def respelled(value: str, pattern: str, *, name: bool) -> str | None:
    """The value in another spelling that the pattern takes, or None. A name may change more than other text."""
    lower = value.lower()
    candidates = [lower, value.removeprefix(_HUB).rstrip("/"), re.sub(r"[ _]", "-", lower)]
    if name:
        candidates += [
            re.sub(r"[^A-Za-z0-9._-]+", "-", value),
            re.sub(r"[^a-z0-9-]+", "-", lower),
            re.sub(r"[^A-Za-z0-9_]+", "_", value),
        ]
    return next((word for word in candidates if word != value and re.search(pattern, word)), None)


def converted(slot: Slot, value: object) -> str:
    """What to do about a value of a wrong type."""
    if value is None:
        return "Give it a value, or remove the key."
    if slot.entry is not None or get_origin(slot.annotation) is dict:
        return "Write `key: value` lines, indented below it" + (", without `- `." if isinstance(value, list) else ".")
    if get_origin(slot.annotation) is tuple:
        return "Write one `- item` line each, or `[a, b]`."
    number = written(value)
    if slot.annotation is str and number is not None and re.search(_pattern(slot), number):
        return f'Put it in quotes: "{number}".'
    return _unquoted(slot, value) if isinstance(value, str) else f"Write {words(slot)}."


def _unquoted(slot: Slot, value: str) -> str:
    if slot.annotation is bool and value.lower() in _OLD_TRUTHS:
        return f"Write `{_OLD_TRUTHS[value.lower()]}`: `{value}` is text in YAML 1.2."
    number = _NUMBER.match(value)
    # A unit that the key does not have, such as the k of 4k, would change the number.
    if slot.annotation in (int, float) and number is not None and value[number.end() :].strip() in ("", *_UNITS):
        return f"Write `{number[1].replace('_', '').replace(',', '')}`, without quotes or unit."
    return f"Write {words(slot)}."


def chosen(slot: Slot, value: object) -> str:
    """What to do about a value that is none of a few."""
    choices = get_args(slot.annotation)
    if isinstance(value, str) and any(value == str(choice) and value != choice for choice in choices):
        return "Remove the quotes."
    meant = nearest(value, map(str, choices)) if isinstance(value, str) else None
    return f"Did you mean `{meant}`?" if meant else f"Write {words(slot)}."


def _pattern(slot: Slot) -> str:
    marks = [mark for outer in slot.metadata for mark in (outer, *getattr(outer, "metadata", ()))]
    return next((pattern for mark in marks if (pattern := getattr(mark, "pattern", None))), "")
