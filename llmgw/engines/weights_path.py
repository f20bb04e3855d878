# SPDX-License-Identifier: Apache-2.0
"""What an engine is given as its model: a path on the node where weights were seen, else the Hugging Face id.

What a member runs with already is kept as long as it is still right: weights that an engine fetched itself are seen at
the next look, and weights that nobody could look for are still there; neither may restart it (D18, R5).
"""

from __future__ import annotations

from pathlib import PurePosixPath

from llmgw.fleet.weights import usable
from llmgw.model.node import Node
from llmgw.model.replica import ModelSpec

DEFAULT_MODEL_DIR = "/srv/models"


def model_source(model: ModelSpec, node: Node, given: str | None = None) -> str:
    """The model as an argument: an absolute path, or the Hugging Face id where the engine must fetch the weights.

    `given`: what the member's unit was written with, None for a new one.
    """
    if model.path is not None and model.path.startswith("/"):
        return model.path
    seen = node.facts.weights if node.facts else None
    found = sorted(usable(model, seen or ()), key=lambda one: ("main" not in one.refs, one.path))
    candidates = [one.path for one in found]
    if given is not None and (given in candidates or given == model.hf_id or (seen is None and _names(model, given))):
        return given
    if candidates:
        return candidates[0]
    if model.hf_id is not None:
        return model.hf_id
    return str(PurePosixPath(first_model_dir(node)) / (model.path or ""))


def first_model_dir(node: Node) -> str:
    """The directory into which weights are fetched, in the layout of Hugging Face's cache."""
    return node.settings.model_dirs[0] if node.settings.model_dirs else DEFAULT_MODEL_DIR


def hub_environment(model: ModelSpec, node: Node) -> dict[str, str]:
    """Where an engine finds weights that llmgw fetches before it starts; it fetches nothing itself. Empty for others.

    The same before and after the weights are seen: neither may restart it.
    """
    return {"HF_HUB_CACHE": first_model_dir(node), "HF_HUB_OFFLINE": "1"} if model.fetch else {}


def _names(model: ModelSpec, path: str) -> bool:
    """Whether a path is one of this model's weights, by its name alone."""
    if model.hf_id is not None:
        cached = f"/models--{model.hf_id.replace('/', '--')}/snapshots/"
        return cached in path or path.endswith(f"/{model.hf_id}")
    return path.endswith(f"/{model.path}")
