# SPDX-License-Identifier: Apache-2.0
"""The model that `llmgw fit` is asked about: a directory of weights, a GGUF file, a config.json, or a name in facts."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from llmgw.cli.fit_gguf import refuse_impossible
from llmgw.errors import LlmgwError
from llmgw.model.ids import ModelName
from llmgw.model.node import FleetSnapshot
from llmgw.model.replica import Catalog, ModelSpec
from llmgw.nodekit import Unreadable, contract, read_model_config, weights_here
from llmgw.placement.memory.model_facts import KnownModel, ModelFacts
from llmgw.placement.memory.parameters import tensor_bytes
from llmgw.placement.memory.span import exactly
from llmgw.placement.memory.weight_bytes import Tensors

GB = 10**9
_CONFIG = "config.json"
_MOST_NAMED = 5
_MOST_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Asked:
    """The model in question. `measured`: its weights were seen; else their size was given, or computed."""

    name: str
    known: KnownModel
    format: str | None
    measured: bool


Named = Callable[[], Mapping[str, ModelSpec]]
"""The models of the fleet's catalog by name; asked only for a name that is neither a path nor in the facts."""


def find(model: str, size_bytes: int | None, fleet: FleetSnapshot | None, named: Named = dict) -> Asked:
    """The model by that name: a path of this machine first, then weights in the stored facts, then a model of the
    catalog. Raises LlmgwError.
    """
    if not model.strip():
        fix = "name a directory with weights, a GGUF file or a config.json; `.` is the directory that you are in"
        raise LlmgwError("model-missing", "the model has an empty name", fix=fix)
    path = Path(model)
    if path.is_dir():
        return _in_directory(path, size_bytes)
    if path.is_file():
        return _of_file(path, size_bytes)
    if fleet is not None:
        return _in_facts(model, fleet, size_bytes, named)
    raise LlmgwError(
        "model-missing",
        "there is no such file or directory",
        where=model,
        fix="name a directory with weights, a GGUF file or a config.json; or with -i the Hugging Face id of weights "
        "that a node of that fleet holds",
    )


def _in_directory(path: Path, size_bytes: int | None) -> Asked:
    found = weights_here(path.absolute())
    here = [one for one in found if Path(one.path).parent == path.absolute() or Path(one.path) == path.absolute()]
    if len(here or found) > 1:
        raise _several(path, here or found)
    if here or found:
        _refuse_impossible_parts((here or found)[0])
        return _of_weights((here or found)[0], size_bytes)
    if (path / _CONFIG).is_file():
        return _of_config(path / _CONFIG, size_bytes)
    raise LlmgwError(
        "model-missing",
        "there are no weights and no config.json in this directory",
        where=str(path),
        fix="name the directory that holds the model's safetensors or GGUF files",
    )


def _refuse_impossible_parts(weights: contract.Weights) -> None:
    first = Path(weights.path)
    if first.suffix.lower() == ".gguf" and first.is_file():
        refuse_impossible(first)


def _of_file(path: Path, size_bytes: int | None) -> Asked:
    if path.suffix.lower() != ".gguf":
        return _of_config(path, size_bytes)
    real = path.absolute()
    mine = [one for one in weights_here(real.parent) if one.path == str(real)]
    if mine:
        refuse_impossible(real)
        return _of_weights(mine[0], size_bytes)
    raise LlmgwError(
        "model-unreadable",
        "this is no GGUF file, or not the first part of one",
        where=str(path),
        fix="name the first of its parts, which ends in -00001-of-...gguf",
    )


def _of_config(path: Path, size_bytes: int | None) -> Asked:
    with path.open("rb") as stream:
        content = stream.read(_MOST_BYTES)
    try:
        architecture = read_model_config(content)
    except Unreadable as error:
        fix = "name the config.json of a model as transformers writes it"
        raise LlmgwError("model-unreadable", str(error), where=str(path), fix=fix) from error
    if architecture.layers is None:
        raise LlmgwError(
            "model-unreadable",
            "this says nothing of a language model's layers",
            where=str(path),
            fix="name the config.json of a model as transformers writes it",
        )
    name = architecture.name or str(path)
    if size_bytes is not None:
        known = KnownModel(Tensors(exactly(size_bytes), architecture), "the size that was given")
        return Asked(name, known, None, measured=False)
    computed = tensor_bytes(architecture)
    if computed is None:
        raise LlmgwError(
            "model-size-unknown",
            "the size of the weights cannot be computed from this configuration",
            where=str(path),
            fix="give it with --size, or name a directory that holds the weights",
        )
    known = KnownModel(Tensors(computed, architecture), "computed from config.json")
    return Asked(name, known, None, measured=False)


def _of_weights(weights: contract.Weights, size_bytes: int | None) -> Asked:
    size = weights.tensor_bytes or weights.size_bytes
    missing = weights.complete is False
    if missing or size is None:
        lacks = f"{weights.missing_count or 'some'} files of the weights are missing or not whole"
        if size_bytes is None:
            first = ", ".join(weights.missing[:_MOST_NAMED])
            why = f"{lacks}: {first}" if first else lacks
            fix = "fetch the rest, or give their size with --size"
            raise LlmgwError("model-incomplete", why, where=weights.path, fix=fix)
        size = size_bytes
    source = "the size that was given"
    if size_bytes is None or not missing:
        source = "read from the headers" if weights.tensor_bytes else "the size of the files"
    tensors = Tensors(exactly(size or 0), weights.architecture)
    return Asked(weights.model, KnownModel(tensors, source), weights.format, measured=not missing)


def _in_facts(model: str, fleet: FleetSnapshot, size_bytes: int | None, named: Named) -> Asked:
    spec = ModelSpec(ModelName(model), path=model if model.startswith("/") else None)
    spec = spec if spec.path else ModelSpec(ModelName(model), hf_id=model, size_bytes=size_bytes)
    known = ModelFacts(Catalog(()), fleet).known(spec)
    if known.tensors is None:
        models = named()
        if model in models:
            spec = models[model]
            spec = spec if size_bytes is None else replace(spec, size_bytes=size_bytes)
            known = ModelFacts(Catalog(()), fleet).known(spec)
        if known.tensors is None:
            raise _missing(model, models, fleet)
    seen = known.source is not None and known.source.startswith("weights in ")
    formats = (
        one.format for node in fleet.nodes for one in _weights(node.facts) if known.source and one.path in known.source
    )
    if not seen and size_bytes is not None:
        known = replace(known, source="the size that was given")
    return Asked(model, known, next(formats, None), measured=seen)


def _missing(model: str, models: Mapping[str, ModelSpec], fleet: FleetSnapshot) -> LlmgwError:
    """The error for a name whose weights no node has, with the names that may be meant."""
    spec = models.get(model)
    if spec is not None:
        why = f"no node of the fleet holds whole weights of {spec.hf_id or spec.path}, which the catalog calls {model}"
        return LlmgwError("model-missing", why, where=model, fix="give their size with --size, or name a directory")
    held = {str(one.model) for node in fleet.nodes for one in _weights(node.facts)}
    every = {name.lower(): name for name in (*held, *models)} | {name.rpartition("/")[2].lower(): name for name in held}
    near = dict.fromkeys(every[name] for name in difflib.get_close_matches(model.lower(), sorted(every), 3, cutoff=0.6))
    return LlmgwError(
        "model-missing",
        "there is no such file or directory, and neither does a node of the fleet hold whole weights of that name nor "
        "the catalog have such a model",
        where=model,
        fix=f"did you mean {' or '.join(near)}?"
        if near
        else "name a directory, a model of the catalog, or an id as `llmgw facts show NODE` lists it under weights",
    )


def _weights(facts: contract.NodeFacts | None) -> Sequence[contract.Weights]:
    return (facts.weights or ()) if facts else ()


def _several(path: Path, found: Sequence[contract.Weights]) -> LlmgwError:
    named = ", ".join(one.path for one in found[:_MOST_NAMED])
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return LlmgwError(
        "model-several",
        f"there are {len(found)} models below this directory",
        where=str(path),
        fix=f"name one: {named}{more}",
    )
