# SPDX-License-Identifier: Apache-2.0
"""What `llmgw fit` says: a table of classes, and in words how much of it is certain; or the same as JSON values."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from llmgw.cli.cells import plural
from llmgw.cli.fit_model import Asked
from llmgw.cli.table import lines_of, wrapped
from llmgw.nodekit import contract
from llmgw.placement.memory.fit import Fit, Proposal
from llmgw.placement.memory.kv import Cut, sequence_cost
from llmgw.placement.memory.span import Span

FIT_FORMAT = 1
_GB, _MIB_PER_GIB, _KIB = 10**9, 1024, 1024
_WIDTH = 110
_HEADING = ("CLASS", "GIB", "PROPOSAL", "MAX LEN", "AT WORST", "AT ONCE", "WEIGHTS", "NOTES")
_FEW = 10


def fit_lines(
    asked: Asked,
    fits: Sequence[Fit],
    engine: str,
    kv_cache: str | None,
    width: int | None,
    *,
    apart: Container[str] = (),
) -> list[str]:
    """The model, the table, and what its numbers rest on. `apart`: classes of which nothing joins so many nodes."""
    rows = [_HEADING, *(_row(one, apart) for one in fits)]
    told = [*_about(asked, kv_cache, width or _WIDTH), "", *lines_of(rows, width, (2, 7)), ""]
    return told + [line for text in _doubts(asked, fits, engine) for line in wrapped(text, width or _WIDTH)]


def fit_document(
    asked: Asked, fits: Sequence[Fit], engine: str, kv_cache: str | None, apart: Container[str] = ()
) -> dict[str, Any]:
    """The same as JSON values: bytes, MiB and tokens; null is unknown."""
    tensors = asked.known.tensors
    architecture = tensors.architecture if tensors else None
    return {
        "format_version": FIT_FORMAT,
        "model": asked.name,
        "architecture": architecture.name if architecture else None,
        "engine": engine,
        "weights_bytes": None if tensors is None else _span(tensors.bytes),
        "weights_source": asked.known.source,
        "weights_measured": asked.measured,
        "quantization": architecture.quantization if architecture else None,
        "max_position": architecture.max_position if architecture else None,
        "kv_bytes_per_token": None if architecture is None else _per_token(architecture, kv_cache),
        "classes": [_class(one, apart) for one in fits],
    }


def _about(asked: Asked, kv_cache: str | None, width: int) -> list[str]:
    tensors = asked.known.tensors
    architecture = tensors.architecture if tensors else None
    size = f"{tensors.bytes.likely / _GB:.1f} GB of weights ({asked.known.source})" if tensors else "unknown weights"
    if architecture is None:
        return [f"{asked.name}: {size}, no config.json: its KV cache is unknown"]
    words = [size]
    if architecture.quantization:
        words.append(f"quantized by {architecture.quantization}")
    words.append(_layers(architecture))
    token = _per_token(architecture, kv_cache)
    if token is not None:
        words.append(f"{token / _KIB:.1f} KiB of KV cache a token")
    if architecture.max_position:
        words.append(f"made for {architecture.max_position} tokens")
    return wrapped(f"{asked.name}: {', '.join(words)}", width, "  ")


def _layers(architecture: contract.ModelArchitecture) -> str:
    kinds = (
        (architecture.full_layers, "full attention"),
        (architecture.mla_layers, "latent rows (MLA)"),
        (architecture.sliding_layers, f"a window of {architecture.window}"),
        (architecture.chunked_layers, f"chunks of {architecture.window}"),
        (architecture.state_layers, "a state"),
    )
    named = [f"{count} with {what}" for count, what in kinds if count]
    total = "layers unknown" if architecture.layers is None else plural(architecture.layers, "layer")
    return f"{total} ({' and '.join(named) if named else 'of a kind that is not understood'})"


def _per_token(architecture: contract.ModelArchitecture, kv_cache: str | None) -> float | None:
    """Bytes of a further token, when all layers still see it and nothing is cut."""
    cost = sequence_cost(architecture, Cut(), kv_cache)
    return None if cost is None else cost.low.token + cost.low.windowed


def _row(one: Fit, apart: Container[str]) -> tuple[str, ...]:
    offer = one.offer
    size = f"{offer.memory_mib / _MIB_PER_GIB:.1f}{'~' if offer.memory_estimated else ''}"
    way = one.proposal
    if way is None:
        return (offer.device_class, size, "none", "", "", "", "", one.refused or "")
    weights = way.estimate.weights
    holds = "-" if weights is None else f"{weights.likely / _MIB_PER_GIB:.1f} GiB"
    longest, at_once = way.longest, way.at_once
    return (
        offer.device_class,
        size,
        _way(one, way),
        "-" if way.tokens is None else str(way.tokens),
        "-" if longest is None else str(int(longest.low)),
        "-" if at_once is None else _count(at_once.likely),
        holds,
        "; ".join(_notes(one, way, apart)),
    )


def _way(one: Fit, way: Proposal) -> str:
    if one.offer.mig:
        return "one instance"
    words = [f"tp {way.tensor_parallel}"] if way.tensor_parallel > 1 or way.pipeline_parallel > 1 else []
    if way.pipeline_parallel > 1:
        words.append(f"pp {way.pipeline_parallel}")
    cards = f"{way.nodes} nodes x {plural(way.gpus, 'card')}" if way.nodes > 1 else plural(way.gpus, "card")
    return f"{cards} ({' '.join(words)})" if words else cards


def _notes(one: Fit, way: Proposal, apart: Container[str]) -> list[str]:
    notes = []
    if one.offer.device_class in apart:
        notes.append(f"no domain or confirmed fabric joins {way.nodes} such nodes")
    if way.longest is not None and int(way.longest.low) == 0:
        notes.append("may not start")
    if not one.enough:
        notes.append("shorter than asked for" if way.tokens is not None else "context unknown")
    if one.offer.nvlink is False and way.tensor_parallel > 1:
        notes.append("no NVLink: tp is slow")
    slow = [f"slow path: {short.why}; ask for it by allow_slow_path: {short.field}" for short in one.floors]
    return [*notes, *slow, *way.estimate.unknown]


def _doubts(asked: Asked, fits: Sequence[Fit], engine: str) -> list[str]:
    """How certain the numbers are."""
    told = []
    if asked.measured:
        told.append("Weights were measured; how engines pad and copy them is reckoned to a few hundredths.")
    elif asked.known.source == "computed from config.json":
        told.append(
            "Weights were computed from config.json, and may be off by a tenth or more: give --size, or name a "
            "directory that holds them."
        )
    told.append(
        f"MAX LEN is what is expected to fit one request in {engine}'s share of the memory; AT WORST is the same "
        "when activations, graphs and padding take the most that is expected. AT ONCE: requests of MAX LEN tokens that "
        "are kept at a time. WEIGHTS are those of one device. The engine's own log has the last word."
    )
    if any(one.proposal and one.proposal.longest and int(one.proposal.longest.low) == 0 for one in fits):
        told.append("May not start: at worst nothing is left for the KV cache; take more devices or try it.")
    if any(one.offer.memory_estimated for one in fits):
        told.append("~ a bound from the class's name: the driver's own number may be a little higher.")
    if any(one.offer.mig for one in fits):
        told.append("On MIG a replica has one instance, and never several.")
    return told


def _count(amount: float) -> str:
    return f"{amount:.1f}" if amount < _FEW else f"{amount:.0f}"


def _span(span: Span | None) -> dict[str, int] | None:
    if span is None:
        return None
    return {"low": round(span.low), "likely": round(span.likely), "high": round(span.high)}


def _class(one: Fit, apart: Container[str]) -> dict[str, Any]:
    return {
        "class": one.offer.device_class,
        "memory_mib": one.offer.memory_mib,
        "memory_estimated": one.offer.memory_estimated,
        "fits": one.proposal is not None,
        "enough": one.enough,
        "refused": one.refused,
        "nodes_not_joined": one.offer.device_class in apart,
        "slow_paths": [{"field": short.field, "why": short.why} for short in one.floors if short.slow_path],
        "proposal": None if one.proposal is None else _proposal(one.proposal),
    }


def _proposal(way: Proposal) -> dict[str, Any]:
    at_once = way.at_once
    return {
        "nodes": way.nodes,
        "gpus": way.gpus,
        "tensor_parallel": way.tensor_parallel,
        "pipeline_parallel": way.pipeline_parallel,
        "max_model_len": _span(way.longest),
        "requests_at_once": None
        if at_once is None
        else {"low": round(at_once.low, 2), "likely": round(at_once.likely, 2), "high": round(at_once.high, 2)},
        "weights_mib": _span(way.estimate.weights),
        "reserve_mib": _span(way.estimate.spare),
        "kv_cache_mib": None
        if way.estimate.cost is None or way.tokens is None
        else _span(way.estimate.cost.bytes(way.tokens) * (1 / 2**20)),
        "unknown": list(way.estimate.unknown),
    }
