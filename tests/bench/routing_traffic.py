# SPDX-License-Identifier: Apache-2.0
"""What clients ask in the routing benchmark, drawn from a seed: the same for every target. Pure.

Conversations arrive by chance at an even rate, and in bursts in which all begin with the same prompt. Each begins with
the prompt of its group: a few groups have most of the conversations. Some have a document of their own. A turn holds
all turns before it and is asked at its time, or as soon as the turn before it is answered.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, product

from tests.bench.routing_prefix import TOKEN_BYTES

GROUPS, ZIPF = 40, 0.9
GROUP_TOKENS, DOCUMENT_TOKENS, QUESTION_TOKENS, ANSWER_TOKENS = (1600, 0.6), (2500, 0.6), (80, 0.8), (110, 0.6)
"""Median, and the deviation of the logarithm."""
MOST_TOKENS = 9_000
DOCUMENT_SHARE = 0.3
ANOTHER_TURN = 0.6
MOST_TURNS = 6
THINKING_S = 3.0
BURST_EVERY_S, BURST_S, BURST_FACTOR = 10.0, 2.0, 4.0
WORDS = tuple(f"{''.join(letters)} " for letters in product("abcdefghijklmnopqrstuvwxyz", repeat=TOKEN_BYTES - 1))


@dataclass(frozen=True, slots=True)
class Turn:
    """One question; `at` in seconds from the beginning of the run."""

    at: float
    question: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """One client's conversation; `system` is what its group's conversations begin with."""

    name: str
    system: str
    turns: tuple[Turn, ...]


def words(chance: random.Random, tokens: int) -> str:
    """Text of so many tokens, each of four bytes."""
    return "".join(chance.choices(WORDS, k=tokens))


def tokens(chance: random.Random, of: tuple[float, float]) -> int:
    """A length by chance."""
    median, deviation = of
    return max(8, min(MOST_TOKENS, round(chance.lognormvariate(math.log(median), deviation))))


def answer(prompt: bytes) -> str:
    """What every engine answers to a prompt, at a length that the prompt decides."""
    chance = random.Random(prompt[-4096:])
    return words(chance, tokens(chance, ANSWER_TOKENS))


def arrivals(chance: random.Random, seconds: float, per_second: float) -> list[tuple[float, bool]]:
    """Times of the conversations' beginnings, and whether in a burst. The average over all is `per_second`."""
    usual = per_second / (1 + (BURST_FACTOR - 1) * BURST_S / BURST_EVERY_S)
    found: list[tuple[float, bool]] = []
    at = 0.0
    while True:
        at += chance.expovariate(usual * BURST_FACTOR)
        if at >= seconds:
            return found
        burst = at % BURST_EVERY_S >= BURST_EVERY_S - BURST_S
        if burst or chance.random() < 1 / BURST_FACTOR:
            found.append((at, burst))


def traffic(seed: int, seconds: float, per_second: float) -> tuple[Conversation, ...]:
    """All conversations that begin within `seconds`, in the order of their beginning. Nothing is asked later."""
    chance = random.Random(seed)
    systems = [words(chance, tokens(chance, GROUP_TOKENS)) for _number in range(GROUPS)]
    shares = list(accumulate((number + 1) ** -ZIPF for number in range(GROUPS)))
    found = []
    for number, (at, burst) in enumerate(arrivals(chance, seconds, per_second)):
        group = chance.choices(range(GROUPS), cum_weights=shares)[0]
        if burst:
            group = GROUPS - 1 - int(at // BURST_EVERY_S) % GROUPS
        found.append(Conversation(f"c{seed}-{number}", systems[group], turns(chance, at, seconds)))
    return tuple(found)


def turns(chance: random.Random, at: float, end: float) -> tuple[Turn, ...]:
    """The questions before `end` of one conversation that begins `at`."""
    found: list[Turn] = []
    document = words(chance, tokens(chance, DOCUMENT_TOKENS)) if chance.random() < DOCUMENT_SHARE else ""
    while not found or (at < end and len(found) < MOST_TURNS and chance.random() < ANOTHER_TURN):
        found.append(Turn(at, document + words(chance, tokens(chance, QUESTION_TOKENS))))
        document = ""
        at += chance.expovariate(1 / THINKING_S)
    return tuple(found)


def rendered(messages: Sequence[tuple[str, str]]) -> bytes:
    """What the model reads of (role, content) pairs: the template of the simulated model."""
    return "".join(f"<|{role:<9.9}|>\n{content}" for role, content in messages).encode()


def prompt(messages: Sequence[tuple[str, str]]) -> bytes:
    """The same, and the word for the answer."""
    return rendered([*messages, ("assistant", "")])
