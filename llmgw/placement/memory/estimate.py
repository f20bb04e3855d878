# SPDX-License-Identifier: Apache-2.0
"""How much memory one device of a replica needs (P13): weights, KV cache by architecture, and a reserve.

A reckoning with bounds, and unknown where something is. docs/reference/memory-estimate.md says how it is made.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.capability.memory_habits import MemoryHabits, elsewhere, habits_of
from llmgw.model.ids import DeviceClass
from llmgw.model.replica import ProfileSpec
from llmgw.placement.memory.calibration import said_cost, said_reserve, said_weights
from llmgw.placement.memory.kv import Cut, SequenceCost, sequence_cost
from llmgw.placement.memory.model_facts import KnownModel
from llmgw.placement.memory.reserve import MIB, reserve
from llmgw.placement.memory.span import Span
from llmgw.placement.memory.weight_bytes import on_a_device, on_a_rank

_CACHE_TYPES = ("--cache-type-k", "-ctk")
_CONTEXT_PARALLEL = ("--decode-context-parallel-size", "-dcp")
_EXPERT_PARALLEL = ("--enable-expert-parallel", "-ep", "--ep-size", "--ep", "--expert-parallel-size")
_MOST_TOKENS = 2**27
_STEP = 16
"""Contexts are told in whole blocks of tokens."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one device of a replica needs. All amounts in MiB; None and a word in `unknown` where it cannot be told.

    `tokens`: the context that has to fit, and `sequences` how many of it at once. `share`: the part of a device's
    memory that is for all this; `most`: the largest that it could be. `measured`: amounts that an engine said itself.
    """

    weights: Span | None
    cost: SequenceCost | None
    """Bytes that a device keeps of one sequence."""
    spare: Span
    tokens: int | None
    sequences: int
    must_hold: bool
    """The engine does not start when `sequences` of `tokens` do not fit."""
    share: float
    most: float
    unknown: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()

    @property
    def kv(self) -> Span | None:
        """The KV cache of those sequences."""
        if self.cost is None or self.tokens is None:
            return None
        return self.cost.bytes(self.tokens) * (self.sequences / MIB)

    @property
    def least(self) -> float | None:
        """What is surely needed; None when not even the weights are known."""
        if self.weights is None:
            return None
        kv = self.kv
        return self.weights.low + self.spare.low + (kv.low if kv is not None and self.must_hold else 0.0)

    @property
    def needs(self) -> Span | None:
        """Everything; None when a part is unknown."""
        kv = self.kv
        return None if self.weights is None or kv is None else self.weights + kv + self.spare

    def room(self, total_mib: int) -> Span | None:
        """What a device of that size leaves for KV caches, the worst case first. Below 0: the weights do not fit."""
        if self.weights is None:
            return None
        given, held = total_mib * self.share, self.weights + self.spare
        return Span(given - held.high, given - held.likely, total_mib * self.most - held.low)

    def concurrency(self, total_mib: int, tokens: int) -> Span | None:
        """Sequences of that many tokens that are kept at once; the worst case first."""
        room = self.room(total_mib)
        if room is None or self.cost is None or tokens <= 0:
            return None
        each = self.cost.bytes(tokens)
        if each.low <= 0:
            return None
        return Span(*(max(0.0, amount) * MIB / one for amount, one in _pairs(room, each)))

    def longest(self, total_mib: int, most: int | None = None) -> Span | None:
        """Tokens of the longest context of which `sequences` fit; the worst case first, 0 where none does."""
        room = self.room(total_mib)
        if room is None or self.cost is None:
            return None
        limit = _MOST_TOKENS if most is None else most
        rates = (self.cost.high, self.cost.likely, self.cost.low)
        amounts = (room.low, room.likely, room.high)
        found = []
        for rate, amount in zip(rates, amounts, strict=True):
            low, high = 0, limit // _STEP
            while low < high:
                middle = (low + high + 1) // 2
                fits = rate.bytes(middle * _STEP) * self.sequences <= amount * MIB
                low, high = (middle, high) if fits else (low, middle - 1)
            whole = rate.bytes(limit) * self.sequences <= amount * MIB
            found.append(float(limit if whole else low * _STEP))
        return Span(*found)


def estimate(
    profile: ProfileSpec, known: KnownModel, total_mib: int | None = None, device_class: DeviceClass | None = None
) -> Estimate | None:
    """What one device of a replica needs; None on CPU, and where nothing is known of the engine's habits.

    `total_mib` is of the device, of which the reserve is a part.
    """
    habits = habits_of(profile.engine)
    if profile.on_cpu or habits is None:
        return None
    unknown: list[str] = []
    measured: list[str] = []
    moved = elsewhere(habits, profile.args)
    if moved is not None:
        unknown.append(f"{moved} among the arguments changes what lies on the devices")
    weights = None if moved else _weights(profile, known, habits, unknown, measured)
    cost = None if moved else _cost(profile, known, habits, unknown, measured)
    spare = said_reserve(profile, known, habits, device_class)
    if spare is not None:
        measured.append("reserve")
    architecture = known.tensors.architecture if known.tensors else None
    if spare is None:
        experts = architecture is not None and architecture.experts is not None
        outside, layers = habits.spare_outside, habits.whole_layers
        spare = reserve(total_mib, experts=experts, whole_layers=layers, outside=outside)
    tokens = profile.max_model_len or (architecture.max_position if architecture else None)
    if tokens is None and architecture is not None:
        unknown.append("nothing says how long the model's context is: set max_model_len")
    return Estimate(
        weights=None if weights is None else weights * (1 / MIB),
        cost=cost,
        spare=spare * (1 / MIB),
        tokens=tokens,
        sequences=(profile.parallel_requests or 1) if habits.whole_pool else 1,
        must_hold=habits.whole_context or profile.max_model_len is not None,
        share=profile.memory_utilization or habits.share,
        most=profile.memory_utilization or habits.most,
        unknown=tuple(unknown),
        measured=tuple(measured),
    )


def _weights(
    profile: ProfileSpec, known: KnownModel, habits: MemoryHabits, unknown: list[str], measured: list[str]
) -> Span | None:
    said = said_weights(profile, known)
    if said is not None:
        measured.append("weights")
        return said
    if known.tensors is None:
        unknown.append("the size of the weights: no node holds them complete, and the catalog gives none")
        return None
    if habits.whole_layers:
        return on_a_device(known.tensors, max(1, profile.gpus))
    return on_a_rank(
        known.tensors,
        Cut(profile.tensor_parallel, profile.pipeline_parallel),
        quantization=profile.quantization,
        copies=profile.data_parallel if habits.copies_share_experts else 1,
        experts_whole=profile.expert_parallel
        or any(_value(profile.args, (option,)) is not None for option in _EXPERT_PARALLEL),
    )


def _cost(
    profile: ProfileSpec, known: KnownModel, habits: MemoryHabits, unknown: list[str], measured: list[str]
) -> SequenceCost | None:
    architecture = known.tensors.architecture if known.tensors else None
    said = said_cost(profile, known, architecture)
    if said is not None:
        measured.append("KV cache")
        return said
    if architecture is None:
        unknown.append("the KV cache: no config.json of the model was seen")
        return None
    if habits.whole_layers:
        cut, kind = Cut(1, max(1, profile.gpus)), _value(profile.args, _CACHE_TYPES)
    else:
        context = _value(profile.args, _CONTEXT_PARALLEL) or "1"
        parts = max(1, int(context)) if context.isdecimal() else 1
        cut, kind = Cut(profile.tensor_parallel, profile.pipeline_parallel, parts), profile.kv_cache_dtype
    cost = sequence_cost(architecture, cut, kind, habits.in_flight)
    if cost is None:
        what = f"{architecture.name or 'the model'} has layers or sizes that are not understood"
        unknown.append(f"the KV cache: {what}" if kind is None else f"the KV cache: {what}, or the type {kind}")
    return cost


def _value(arguments: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    """What follows an option, or is joined to it by `=`; empty where nothing follows, None where it is not there."""
    for at, argument in enumerate(arguments):
        name, joined, value = argument.partition("=")
        if name in names:
            following = arguments[at + 1] if at + 1 < len(arguments) else ""
            return value if joined else following
    return None


def _pairs(room: Span, each: Span) -> tuple[tuple[float, float], ...]:
    """The least room with the most that each needs, and so on."""
    return ((room.low, each.high), (room.likely, each.likely), (room.high, each.low))
