# SPDX-License-Identifier: Apache-2.0
"""Whether weights that a node reports are those that the catalog names (D12, P3)."""

from __future__ import annotations

from collections.abc import Iterable

from llmgw.model.replica import ModelSpec
from llmgw.nodekit import contract

_HUB_SEPARATOR = "--"


def holds(model: ModelSpec, weights: contract.Weights) -> bool:
    """Whether these are the model's weights, by name alone: `weights.complete` is another question.

    An `hf_id` is the id of a cached repository, the repository that a GGUF file was fetched from, or the end of a plain
    directory's path (`Qwen/Qwen3-32B`); for a directory that has only its last word, see `held`. A `revision`
    has to be the commit or a name that the node has for it: where a node cannot tell, it is not held. A `path` is the
    weights' own, or the end of it where it is relative.
    """
    if model.path is not None:
        return _at(model.path, weights)
    return model.hf_id is not None and _is_of(model.hf_id, weights) and _is_revision(model, weights)


def held(model: ModelSpec, seen: Iterable[contract.Weights]) -> tuple[contract.Weights, ...]:
    """Those of a node's weights that are the model's, by path.

    Where none has the whole name, a plain directory with the last word of the id counts (`/models/Qwen3-32B`), if it is
    the only one that ends so: of two, somebody else's could be meant.
    """
    seen = tuple(seen)
    whole = [one for one in seen if holds(model, one)]
    if not whole and model.path is None and model.hf_id is not None and "/" in model.hf_id:
        last = model.hf_id.rpartition("/")[2]
        ending = [one for one in seen if _in_directory(one) and _last(one.path) == last]
        # `other/Qwen3-32B` below the model directory is the model of another owner.
        whole = [one for one in ending if len(ending) == 1 and one.model == last and _is_revision(model, one)]
    return tuple(sorted(whole, key=lambda one: one.path))


def usable(model: ModelSpec, seen: Iterable[contract.Weights]) -> tuple[contract.Weights, ...]:
    """Those of the held ones that an engine can be given: complete as far as is known (D12), and no GGUF where the
    model is named by its Hugging Face id.
    """
    return tuple(
        one
        for one in held(model, seen)
        if one.complete is not False and (model.path is not None or one.format != "gguf")
    )


def _at(path: str, weights: contract.Weights) -> bool:
    path = path.rstrip("/")
    return weights.path == path or (not path.startswith("/") and weights.path.endswith(f"/{path}"))


def _is_of(hf_id: str, weights: contract.Weights) -> bool:
    # The name of a cached repository has `--` for `/`, so that an id with `--` in it comes back with one `/` more.
    names = {hf_id, hf_id.replace(_HUB_SEPARATOR, "/")}
    if weights.model in names or weights.repository in names:
        return True
    return _in_directory(weights) and "/" in hf_id and weights.path.endswith(f"/{hf_id}")


def _is_revision(model: ModelSpec, weights: contract.Weights) -> bool:
    return model.revision is None or weights.revision == model.revision or model.revision in weights.refs


def _in_directory(weights: contract.Weights) -> bool:
    return weights.layout in {None, "directory"}


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
