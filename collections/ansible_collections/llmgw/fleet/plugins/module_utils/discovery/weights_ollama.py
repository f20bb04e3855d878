# SPDX-License-Identifier: BSD-2-Clause
"""Models in a store of Ollama (D12): GGUF files under the names of their digests.

Private to llmgw. `manifests/<registry>/<namespace>/<model>/<tag>` is JSON that lists layers; the one that is an image
of a model is `blobs/sha256-<hex>`, with `-partial` behind it until it has arrived.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Iterable, Iterator, NamedTuple

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import weights_names
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_folder import Sighting
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import Found, Job

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import Reach

STORE = "ollama"
_MANIFEST_BYTES = 64 * 1024
_IMAGE = ".image.model"
# registry, namespace, model, tag
_LEVELS = 4
_USUAL = ("registry.ollama.ai", "library")


class _Layer(NamedTuple):
    blob: str
    size: int


def is_store(folders: Iterable[str]) -> bool:
    """Whether a directory with these directories in it is a store."""
    return {"manifests", "blobs"} <= set(folders)


def visit(reach: Reach, job: Job) -> Found:
    """The models of one store, named as Ollama names them."""
    return Found(tuple(seen for names in _manifests(reach, job.path) for seen in _model(reach, job.path, names)))


def _manifests(reach: Reach, store: str) -> Iterator[tuple[str, ...]]:
    """Registry, namespace, model and tag of every manifest."""
    level: list[tuple[str, ...]] = [()]
    for depth in range(_LEVELS):
        kind = "file" if depth == _LEVELS - 1 else "directory"
        level = [
            (*names, entry.name)
            for names in level
            for entry in reach.scan("/".join((store, "manifests", *names))).entries
            if entry.kind == kind
        ]
    yield from level


def _model(reach: Reach, store: str, names: tuple[str, ...]) -> Iterator[Sighting]:
    layer = _layer(reach.read("/".join((store, "manifests", *names)), _MANIFEST_BYTES))
    if layer is None:
        return
    size = reach.measure(f"{store}/blobs", [layer.blob])[layer.blob].bytes
    whole = size == layer.size
    named = "/".join(names[:-1])
    for usual in (f"{'/'.join(_USUAL)}/", f"{_USUAL[0]}/"):
        named = named[len(usual) :] if named.startswith(usual) else named
    weights = Weights(
        model=f"{named}:{names[-1]}",
        path=f"{store}/blobs/{layer.blob}",
        layout=STORE,
        size_bytes=size,
        complete=whole,
        missing=() if whole else (layer.blob,),
        missing_count=0 if whole else 1,
        files=0 if size is None else 1,
        format=weights_names.GGUF,
    )
    yield Sighting(weights)


def _layer(content: bytes | None) -> _Layer | None:
    """The layer that is a model; None when there is none, as in what is no manifest."""
    try:
        document = json.loads(content or b"")
    except (ValueError, RecursionError):
        return None
    layers = document.get("layers") if isinstance(document, dict) else None
    for layer in layers if isinstance(layers, list) else ():
        found = _image(layer)
        if found is not None:
            return found
    return None


def _image(layer: Any) -> _Layer | None:
    if not isinstance(layer, dict) or not str(layer.get("mediaType")).endswith(_IMAGE):
        return None
    algorithm, _colon, digest = str(layer.get("digest")).partition(":")
    size = layer.get("size")
    if not algorithm.isalnum() or not digest.isalnum() or not isinstance(size, int):
        return None
    return _Layer(f"{algorithm}-{digest}", size)
