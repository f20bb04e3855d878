# SPDX-License-Identifier: Apache-2.0
"""Devices as people name them for `llmgw nodes clear`, as the UUIDs that marks have. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from llmgw.errors import LlmgwError
from llmgw.fleet.quarantine import names_of
from llmgw.nodekit import contract

_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]+", re.ASCII)


def named_devices(node: str, facts: contract.NodeFacts | None, words: Sequence[str]) -> list[str]:
    """The UUIDs that these words name, each once, in their order. A card stands for itself and, if any are marked, for
    its MIG instances too.

    Raises LlmgwError `unknown-device` for a word that names none, with what is quarantined there.
    """
    found: dict[str, None] = {}
    for word in words:
        found.update(dict.fromkeys(_of_word(node, facts, word)))
    return list(found)


def _of_word(node: str, facts: contract.NodeFacts | None, word: str) -> list[str]:
    if _UUID.fullmatch(word):
        return [word]
    names = (names_of(facts) if facts is not None else None) or {}
    exact = [uuid for uuid, name in names.items() if name == word]
    marked = {mark.device for mark in facts.quarantined or ()} if facts is not None else set()
    inside = [uuid for uuid, name in names.items() if name.startswith(f"{word}/") and uuid in marked]
    if not exact and not inside:
        raise _unknown(node, facts, word, names)
    return [uuid for uuid in exact if uuid in marked or not inside] + inside


def _unknown(node: str, facts: contract.NodeFacts | None, word: str, names: dict[str, str]) -> LlmgwError:
    marked = sorted(mark.device for mark in facts.quarantined or ()) if facts is not None else []
    told = ", ".join(f"{names[uuid]} ({uuid})" if uuid in names else uuid for uuid in marked)
    if names:
        why = f"{node} shows no device {word!r}"
    elif facts is not None and facts.gpus is not None and not facts.gpus:
        why = f"{node} has no devices, so {word!r} names none"
    else:
        why = f"the cards of {node} are unknown, so {word!r} names none"
    fix = f"quarantined there: {told}; a UUID names each of them" if told else f"`llmgw nodes {node}` shows its devices"
    return LlmgwError("unknown-device", why, fix=fix)
