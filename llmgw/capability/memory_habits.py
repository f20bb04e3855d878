# SPDX-License-Identifier: Apache-2.0
"""How each engine takes the memory of its devices, as a table with its sources (P13)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryHabits:
    """What one engine does with a device's memory. An engine that is not in the table takes an unknown amount.

    `share`: of the total that it takes where the profile says nothing; `most`: the largest share that it could take.
    `spare_outside`: activations and graphs come out of the rest, not out of its share.
    """

    share: float
    most: float
    spare_outside: bool = False
    whole_context: bool = False
    """It refuses to start when the KV cache cannot hold one request of the longest context."""
    whole_layers: bool = False
    """Devices get whole layers, and no layer is cut, whatever `tensor_parallel` says."""
    whole_pool: bool = False
    """The KV cache for all parallel requests is taken at the start."""
    copies_share_experts: bool = False
    """The experts of a mixture are spread over the devices of all copies of a replica (`data_parallel`), whether as
    wholes or in parts; the rest of the model is in every copy.
    """
    in_flight: int = 0
    """Tokens beyond a sliding window that it keeps while it works on a prompt."""
    elsewhere: tuple[str, ...] = ()
    """Beginnings of options after which memory is taken otherwise than is reckoned with here."""


_HABITS: dict[str, MemoryHabits] = {
    # domain.md A1 and J: the share is of the total and for one instance, CUDA graphs are inside it since 0.21.
    "vllm": MemoryHabits(
        share=0.92,
        most=0.92,
        whole_context=True,
        # domain.md A1: the group of experts is TP x PCP x DP.
        copies_share_experts=True,
        in_flight=8192,
        elsewhere=(
            "--cpu-offload",
            "--offload",
            "--kv-cache-memory",
            "--kv-offloading",
            "--data-parallel",
            "-dp",
            "--prefill-context-parallel-size",
            "-pcp",
            "--hf-overrides",
            "--num-gpu-blocks-override",
            "--load-format",
            "--enable-ep-weight-filter",
        ),
    ),
    # domain.md B: --mem-fraction-static is weights and KV cache alone. Without it the engine computes one from the
    # device's memory and its own settings.
    "sglang": MemoryHabits(
        share=0.88,
        most=0.95,
        spare_outside=True,
        in_flight=8192,
        elsewhere=(
            "--cpu-offload",
            "--offload",
            "--max-total-tokens",
            "--dp",
            "--data-parallel",
            "--enable-dp",
            "--attn-dp-size",
            "--ep-num-redundant",
            "--json-model-override",
            "--load-format",
        ),
    ),
    # domain.md C: it takes what it needs, and layers go whole to the devices (`--split-mode layer`).
    "llama.cpp": MemoryHabits(
        share=0.98,
        most=1.0,
        whole_layers=True,
        whole_pool=True,
        in_flight=512,
        elsewhere=(
            "--n-gpu-layers",
            "-ngl",
            "--gpu-layers",
            "--cpu-moe",
            "-cmoe",
            "--n-cpu-moe",
            "-ncmoe",
            "--override-tensor",
            "-ot",
            "--no-kv-offload",
            "-nkvo",
            "--split-mode",
            "-sm",
            "--tensor-split",
            "-ts",
            "--device",
            "-dev",
            "--ctx-size",
            "-c",
            "--swa-full",
            "--rpc",
        ),
    ),
}


def habits_of(engine: str) -> MemoryHabits | None:
    """The habits of an engine; None where they are unknown, as for a simulator that takes none."""
    return _HABITS.get(engine)


def elsewhere(habits: MemoryHabits, arguments: Iterable[str]) -> str | None:
    """The first option after which memory is taken otherwise than is reckoned with; None when there is none.

    A short option has to be the whole word: `-c` is not `-cb`.
    """
    for argument in arguments:
        name = argument.partition("=")[0]
        for option in habits.elsewhere:
            if name == option or (option.startswith("--") and name.startswith(option)):
                return name
    return None
