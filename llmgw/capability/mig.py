# SPDX-License-Identifier: Apache-2.0
"""What engines get wrong about MIG instances."""

from __future__ import annotations

from llmgw.capability.device_classes import FIRST_MIG_INDEX, MIG_INDICES_PER_CARD


def vllm_cannot_find(engine: str, device_index: int, cards: int | None) -> str | None:
    """Why an instance cannot be given to vLLM, as a sentence; None when it can, and for other engines and whole cards.

    vLLM asks NVML for the index of what `CUDA_VISIBLE_DEVICES` names. Of an instance NVML tells the index inside its
    card, and vLLM takes it for a card's: where there is no such card it fails at its start (domain.md A6; the same in
    0.24 to 0.33). `device_index`: as placement counts instances, 1000 + 100 x card + instance (D5). `cards`: physical
    cards of the node, None when unknown.
    """
    if engine != "vllm" or cards is None or device_index < FIRST_MIG_INDEX:
        return None
    card, instance = divmod(device_index - FIRST_MIG_INDEX, MIG_INDICES_PER_CARD)
    if instance < cards:
        return None
    return (
        f"vLLM takes the number of MIG instance {card}/mig{instance} for that of a card, and the node has no card "
        f"{instance}: use sglang or llama.cpp there, or an instance with a number below {cards}"
    )
