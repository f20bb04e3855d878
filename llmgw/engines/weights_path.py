# SPDX-License-Identifier: Apache-2.0
"""What an engine is given as its model: a path on the node where weights were seen, else the Hugging Face id.

What a member runs with already is kept as long as it is not known to be wrong: weights that an engine fetched itself
are seen at the next look, and weights that were not seen this time are still there, for a search ends early on a slow
filesystem; neither may restart it (D18, R5).
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from llmgw.fleet.weights import usable
from llmgw.model.node import Node
from llmgw.model.replica import ModelSpec
from llmgw.nodekit import contract

DEFAULT_MODEL_DIR = "/srv/models"
HUB_CACHE = "HF_HUB_CACHE"
HUB_OFFLINE = "HF_HUB_OFFLINE"
_COMMIT = re.compile("[0-9a-f]{40}")
_SEARCH_FELL_SHORT = frozenset({"weights-search-cut", "weights-too-many", "weights-denied", "weights-unreadable"})
"""Findings after which weights may be there that were not seen."""


def model_source(model: ModelSpec, node: Node, given: str | None = None, *, failed: bool = False) -> str:
    """The model as an argument: an absolute path, or the Hugging Face id where the engine must fetch the weights.

    `given`: what the member's unit was written with, None for a new one. `failed`: that unit has failed for good, so
    that weights which are seen elsewhere are better than those that are not seen.
    """
    if model.path is not None and model.path.startswith("/"):
        return model.path
    seen = (node.facts.weights or ()) if node.facts else ()
    found = sorted(usable(model, seen), key=lambda one: ("main" not in one.refs, one.path))
    if given is not None and _stays(model, node, given, seen, doubted=failed and bool(found)):
        return given
    if found:
        return found[0].path
    if model.hf_id is not None:
        return model.hf_id
    return str(PurePosixPath(first_model_dir(node)) / (model.path or ""))


def first_model_dir(node: Node) -> str:
    """The directory into which weights are fetched, in the layout of Hugging Face's cache."""
    return node.settings.model_dirs[0] if node.settings.model_dirs else DEFAULT_MODEL_DIR


def hub_environment(model: ModelSpec, node: Node, before: str | None = None, *, failed: bool = False) -> dict[str, str]:
    """Where an engine finds weights that llmgw fetches before it starts; it fetches nothing itself. Empty for others.

    The same before and after the weights are seen: neither may restart it. `before`: the directory in the unit of a
    member that got the same model so, which stays when another one becomes the first, until the weights are known to
    have moved there, or the unit has `failed` and they are not seen.
    """
    if not model.fetch:
        return {}
    first = first_model_dir(node)
    stays = before is not None and not _moved(model, node, before, first, failed=failed)
    return {HUB_CACHE: before if before is not None and stays else first, HUB_OFFLINE: "1"}


def _moved(model: ModelSpec, node: Node, before: str, first: str, *, failed: bool) -> bool:
    """Whether usable weights are in the first directory, and none are in the one from before, which was looked through.

    One that is no longer among the node's directories is not looked through.
    """
    facts = node.facts
    paths = [PurePosixPath(one.path) for one in usable(model, (facts.weights or ()) if facts else ())]
    if any(one.is_relative_to(before) for one in paths):
        return False
    fell_short = facts is None or any(one.code in _SEARCH_FELL_SHORT for one in facts.findings)
    looked = before in node.settings.model_dirs and not fell_short
    return failed or (looked and any(one.is_relative_to(first) for one in paths))


def _stays(model: ModelSpec, node: Node, given: str, seen: tuple[contract.Weights, ...], *, doubted: bool) -> bool:
    """Whether what a unit was given is still the model, or nothing is known against it."""
    if given == model.hf_id:
        return True
    there = [one for one in seen if one.path == given]
    if there:
        # By itself: a second directory of that name, which makes a new choice ambiguous, changes nothing here.
        return bool(usable(model, there))
    return not doubted and _names(model, node, given) and _may_be(model.revision, given)


def _names(model: ModelSpec, node: Node, path: str) -> bool:
    """Whether a path is one of this model's weights, by its name alone."""
    if model.hf_id is None:
        return path.endswith(f"/{model.path}")
    cached = f"/models--{model.hf_id.replace('/', '--')}/snapshots/"
    if cached in path or path.endswith(f"/{model.hf_id}"):
        return True
    folder, _, last = path.rpartition("/")
    directories = {one.rstrip("/") for one in (*node.settings.model_dirs, DEFAULT_MODEL_DIR)}
    return last == model.hf_id.rpartition("/")[2] and folder in directories


def _may_be(revision: str | None, path: str) -> bool:
    """Whether a path may be that revision: only a snapshot's says which commit it is, and no path which branch."""
    snapshot = path.partition("/snapshots/")[2].partition("/")[0]
    commits = revision is not None and _COMMIT.fullmatch(revision) and _COMMIT.fullmatch(snapshot)
    return not commits or revision == snapshot
