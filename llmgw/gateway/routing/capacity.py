# SPDX-License-Identifier: Apache-2.0
"""How fast an endpoint reads prompts and writes answers: a prior from its hardware, then what is seen (G4). Pure.

The priors' absolute level is a guess, as the gateway does not know how large a model is: the first few answers correct
it. What they must have right is the ratio of unlike hardware that serves the same model.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Card(NamedTuple):
    """Dense 16-bit TFLOP/s, which bound the reading of prompts, and memory GB/s, which bound the writing of answers."""

    tflops: float
    gb_per_s: float


CARDS: Final[dict[str, Card]] = {
    "v100": Card(125, 900),
    "t4": Card(65, 320),
    "a100": Card(312, 1935),
    "a30": Card(165, 933),
    "a10": Card(125, 600),
    "a10g": Card(70, 600),
    "a40": Card(150, 696),
    "l4": Card(121, 300),
    "l20": Card(119, 864),
    "l40s": Card(362, 864),
    "rtx-6000-ada": Card(364, 960),
    "rtx-4090": Card(165, 1008),
    "h100": Card(989, 3350),
    "gh200": Card(989, 4000),
    "h200": Card(989, 4800),
    "b200": Card(2250, 8000),
    "gb200": Card(2500, 8000),
    "b300": Card(2250, 8000),
    "gb300": Card(2500, 8000),
    "rtx-5090": Card(209, 1792),
    "rtx-pro-6000": Card(500, 1792),
    "gb10": Card(125, 273),
    "mi300x": Card(1307, 5300),
}
"""By the product's part of a device class. Rounded from what vendors state, without sparsity, of the fastest form
factor; for the RTX cards, GB10 and the Blackwell superchips estimates from figures stated for other number formats.
"""

CPU: Final = Card(2, 100)
"""A server without an accelerator; an estimate."""
UNKNOWN: Final = Card(
    sorted(card.tflops for card in CARDS.values())[len(CARDS) // 2],
    sorted(card.gb_per_s for card in CARDS.values())[len(CARDS) // 2],
)
"""The median: a class that nobody knows must not look like the best one."""

PREFILL_TPS_PER_TFLOPS: Final = 16.0
"""Prompt tokens per second for each TFLOP/s. A dense model of 8 billion parameters at a quarter of the peak: 16,000
tokens/s on an H100, where another router's published constant is 15,928."""
WEIGHTS_GB: Final = 16.0
"""What is read from memory for each token of an answer: the same model in 16 bits."""
SCALING: Final = 0.77
"""Exponent of the number of devices: two are 1.7 times as fast as one, eight are 5."""
MIG_SLICES: Final = 7

OUTPUT_TOKENS: Final = 256.0
PROMPT_TOKENS: Final = 1024.0
"""Of a request, until requests have been seen."""
BATCH_DOUBLES_AT: Final = 64.0
"""With so many requests running, a token of each takes twice as long as of one alone; an estimate. It depends on model
and context: what is read of KV caches, against the weights that are read anyway.
"""

LEAST_SAMPLE_TOKENS: Final = 256
"""A shorter prompt's time to first byte says more about the way there than about the reading."""
WHOLE_SAMPLE_TOKENS: Final = 2048
LEAST_ANSWER_TOKENS: Final = 8
SLOWEST_LEARNING: Final = 0.1
MEANS_LEARN: Final = 0.05
FURTHEST_STEP: Final = 4.0
"""A sample further off counts as so far off: a prompt that was cached after all, or an engine that stood still."""
LEAST_TPS: Final = 1.0
MOST_TPS: Final = 10_000_000.0
LEAST_STEP_S: Final = 1e-6
MOST_STEP_S: Final = 10.0

_CLASS = re.compile(r"(?P<product>.+?)-(?:[0-9]+g|unified)(?:-mig-(?:[0-9]+c\.)?(?P<slices>[0-9]+)g\..+)?")


def card_of(device_class: str | None) -> Card:
    """What one device of a class can do; of a MIG instance its sevenths. The median for a class that is not known."""
    found = _CLASS.fullmatch(device_class) if device_class else None
    card = CARDS.get(found["product"]) if found else None
    if found is None or card is None:
        return UNKNOWN
    if found["slices"] is None:
        return card
    share = min(1.0, int(found["slices"]) / MIG_SLICES)
    return Card(card.tflops * share, card.gb_per_s * share)


class Capacity:
    """Speed of one endpoint, and what requests to it are like. All are estimates that each answer corrects.

    `prefill_tps`: prompt tokens per second while it reads prompts. `step_s`: seconds for a token of an answer when one
    request runs alone. `output_tokens`, `prompt_tokens`: of a request, the latter without what was cached.
    """

    __slots__ = ("_prefills", "_steps", "output_tokens", "prefill_tps", "prompt_tokens", "step_s")

    def __init__(self, device_class: str | None = None, devices: int | None = None) -> None:
        card = CPU if devices == 0 else card_of(device_class)
        together: float = max(1, devices or 1) ** SCALING
        self.prefill_tps = PREFILL_TPS_PER_TFLOPS * card.tflops * together
        self.step_s = WEIGHTS_GB / (card.gb_per_s * together)
        self.output_tokens = OUTPUT_TOKENS
        self.prompt_tokens = PROMPT_TOKENS
        self._prefills = self._steps = 0

    @property
    def decode_s(self) -> float:
        """Seconds by which a request that runs delays another one, until that one's answer is complete."""
        return self.step_s / BATCH_DOUBLES_AT * self.output_tokens

    def read(self, tokens: int, seconds: float, new: float = 1.0) -> None:
        """Learns from `tokens` of prompts that were read in `seconds`. `new`: the share of that time of which no other
        sample has told.
        """
        if tokens < LEAST_SAMPLE_TOKENS or seconds <= 0.0:
            return
        weight = _weight(self._prefills) * min(1.0, tokens / WHOLE_SAMPLE_TOKENS) * new
        self._prefills += 1
        speed = _towards(self.prefill_tps, tokens / seconds, weight)
        self.prefill_tps = min(MOST_TPS, max(LEAST_TPS, speed))

    def wrote(self, tokens: float, seconds: float, running: float) -> None:
        """Learns from an answer of `tokens` that took `seconds` while `running` requests ran, itself among them."""
        if tokens < 1.0:
            return
        self.output_tokens += MEANS_LEARN * (tokens - self.output_tokens)
        if tokens < LEAST_ANSWER_TOKENS or seconds <= 0.0:
            return
        weight = _weight(self._steps)
        self._steps += 1
        alone = seconds / tokens / (1.0 + max(0.0, running - 1.0) / BATCH_DOUBLES_AT)
        self.step_s = min(MOST_STEP_S, max(LEAST_STEP_S, _towards(self.step_s, alone, weight)))

    def asked(self, tokens: int) -> None:
        """Learns how much of a prompt is not cached."""
        self.prompt_tokens += MEANS_LEARN * (tokens - self.prompt_tokens)

    def doubt(self) -> None:
        """The process behind it is another one: what was learned stays, but the next answers count as the first."""
        self._prefills = self._steps = 0


def _weight(samples: int) -> float:
    """How much the next sample weighs: two thirds the first, half the second, and in the end a tenth each."""
    return max(SLOWEST_LEARNING, 2.0 / (3 + samples))


def _towards(now: float, sample: float, weight: float) -> float:
    """`now` moved towards `sample` by `weight`, by ratio, so that twice and half as fast weigh the same."""
    ratio: float = min(FURTHEST_STEP, max(1.0 / FURTHEST_STEP, sample / now)) ** weight
    return now * ratio
