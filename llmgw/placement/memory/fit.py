# SPDX-License-Identifier: Apache-2.0
"""On how many devices of a class a model fits, and with how much context (P13): what `llmgw fit` proposes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from llmgw.capability.memory_habits import habits_of
from llmgw.capability.shortfall import Shortfall, shortfalls
from llmgw.model.ids import DeviceClass
from llmgw.model.replica import ProfileSpec
from llmgw.nodekit import contract
from llmgw.placement.memory.estimate import Estimate, estimate
from llmgw.placement.memory.model_facts import KnownModel
from llmgw.placement.memory.span import Span

_MOST_NODES = 4
_SHORT = 4096
"""Tokens of context below which a model is of little use: nothing is proposed for that."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Devices of one class, and of which `per_node` a node has. `memory_estimated`: by the class's name alone."""

    device_class: DeviceClass
    memory_mib: int
    compute_capability: str | None = None
    memory_estimated: bool = False
    mig: bool = False
    nvlink: bool | None = None
    per_node: int = 8


@dataclass(frozen=True, slots=True)
class Proposal:
    """One way to cut the model: `gpus` on each of `nodes`. `longest`: tokens of the longest context that fits, the
    worst case first; `at_once`: requests of `tokens` that are kept at a time. Both None where the KV cache is unknown.
    """

    tensor_parallel: int
    pipeline_parallel: int
    nodes: int
    gpus: int
    estimate: Estimate
    longest: Span | None
    tokens: int | None
    at_once: Span | None

    @property
    def devices(self) -> int:
        """All devices that it takes."""
        return self.nodes * self.gpus


@dataclass(frozen=True, slots=True)
class Fit:
    """What is proposed for one class; `proposal` None: nothing, and `refused` says why. `enough`: the context is known
    to be as long as was asked for. `floors`: what of the model needs a slower path there.
    """

    offer: Offer
    proposal: Proposal | None
    enough: bool
    refused: str | None = None
    floors: tuple[Shortfall, ...] = ()


def fit(profile: ProfileSpec, known: KnownModel, offer: Offer, stored_as: str | None = None) -> Fit:
    """What to propose for a class. `profile` has the wishes; its devices, parallelism and nodes are replaced.

    The fewest devices that hold the wanted context are proposed, on one node where that is possible; where nothing
    does, the longest context that comes of any cut. `stored_as`: the method by which the weights are quantized.
    """
    one = replace(profile, devices=(offer.device_class,), gpus=1, tensor_parallel=1, pipeline_parallel=1, nodes=1)
    wish = replace(one, quantization=one.quantization or stored_as)
    below = tuple(shortfalls(wish, offer.compute_capability, offer.device_class))
    hard = next((short for short in below if not short.slow_path), None)
    if hard is not None:
        return Fit(offer, None, enough=False, refused=hard.why, floors=below)
    architecture = known.tensors.architecture if known.tensors else None
    wanted = profile.max_model_len or (architecture.max_position if architecture else None)
    made = (_proposal(way, known, offer, wanted) for way in _cuts(one, architecture, offer))
    ways = tuple(way for way in made if way is not None)
    usable = [way for way in ways if _holds_weights(way, offer)]
    if not usable:
        return Fit(offer, None, enough=False, refused=_too_large(ways, offer), floors=below)
    for way in usable:
        if wanted is not None and way.longest is not None and way.longest.likely >= wanted:
            return Fit(offer, way, enough=True, floors=below)
    best = max(usable, key=lambda way: (way.longest.likely if way.longest else 0.0, -way.devices))
    if best.longest is not None and best.longest.likely < min(_SHORT, wanted or _SHORT):
        return Fit(offer, None, enough=False, refused=_no_context(best), floors=below)
    chosen = usable[0] if best.longest is None else best
    return Fit(offer, chosen, enough=chosen.longest is not None and wanted is None, floors=below)


def _cuts(profile: ProfileSpec, architecture: contract.ModelArchitecture | None, offer: Offer) -> Iterator[ProfileSpec]:
    """Ways to cut a model, the fewest devices first, then over several nodes: a stage a node."""
    habits = habits_of(profile.engine)
    most = 1 if offer.mig else offer.per_node
    heads = architecture.attention_heads if architecture else None
    layers = architecture.layers if architecture else None
    if habits is not None and habits.whole_layers:
        yield from (replace(profile, gpus=count) for count in _powers(most) if layers is None or count <= layers)
        return
    widths = [count for count in _powers(most) if not heads or heads % count == 0]
    yield from (replace(profile, gpus=width, tensor_parallel=width) for width in widths)
    # Where the heads cannot be shared out further, stages use the other devices of the node.
    last = widths[-1]
    for stages in _powers(most // last)[1:]:
        if layers is None or stages <= layers:
            yield replace(profile, gpus=last * stages, tensor_parallel=last, pipeline_parallel=stages)
    stages = most // last
    for nodes in range(2, 1 if offer.mig else _MOST_NODES + 1):
        if layers is None or nodes * stages <= layers:
            yield replace(
                profile, gpus=last * stages, tensor_parallel=last, pipeline_parallel=nodes * stages, nodes=nodes
            )


def _powers(most: int) -> list[int]:
    found = [1]
    while found[-1] * 2 <= most:
        found.append(found[-1] * 2)
    return found


def _proposal(profile: ProfileSpec, known: KnownModel, offer: Offer, wanted: int | None) -> Proposal | None:
    found = estimate(profile, known, offer.memory_mib, offer.device_class)
    if found is None:
        return None
    longest = found.longest(offer.memory_mib, wanted)
    tokens = None if longest is None else int(longest.likely)
    return Proposal(
        profile.tensor_parallel,
        profile.pipeline_parallel,
        profile.nodes,
        profile.gpus,
        found,
        longest,
        tokens,
        found.concurrency(offer.memory_mib, tokens) if tokens else None,
    )


def _holds_weights(way: Proposal, offer: Offer) -> bool:
    room = way.estimate.room(offer.memory_mib)
    return room is not None and room.likely > 0


def _too_large(ways: tuple[Proposal, ...], offer: Offer) -> str:
    """Why not even the widest cut holds the weights."""
    there = [way for way in ways if way.estimate.weights is not None]
    if not there:
        return "the size of the weights is unknown"
    widest = there[-1]
    held = widest.estimate.weights
    needs = (held.likely if held else 0.0) + widest.estimate.spare.likely
    gives = offer.memory_mib * widest.estimate.share
    what = f"weights and reserve need {needs / 1024:.1f} GiB of each device"
    many = f" of {widest.devices}" if widest.devices > 1 else ""
    return f"{what}{many}, {'an instance' if offer.mig else 'it'} gives {gives / 1024:.1f}"


def _no_context(best: Proposal) -> str:
    found = int(best.longest.likely) if best.longest else 0
    where = "one device" if best.devices == 1 else f"{best.devices} devices"
    return f"beside the weights {where} would keep {found} tokens of context"
