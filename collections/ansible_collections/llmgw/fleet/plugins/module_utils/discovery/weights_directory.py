# SPDX-License-Identifier: BSD-2-Clause
"""Weights in a plain directory (D12), and what of the directories in it is worth looking at.

Private to llmgw. Directories that are links are not entered: what they lead to is either below a model directory
anyhow, or somewhere that nobody named.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Iterable, Iterator, Mapping

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import (
    weights_gguf,
    weights_headers,
    weights_hub,
    weights_names,
    weights_ollama,
    weights_set,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_folder import Folder, Sighting
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import Found, Job

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import Reach
    from ansible_collections.llmgw.fleet.plugins.module_utils.readings.hub_files import TreeFile

DIRECTORY = "directory"
_DEPTH = 4
# Hidden directories in which programs keep models.
_HIDDEN = frozenset({".cache", ".ollama", ".lmstudio", ".local"})
_NO_MODELS = frozenset({"lost+found", "__pycache__", "node_modules", "site-packages", "~snapshot"})
# What huggingface_hub keeps beside `hub`, and in a cache beside the repositories: pieces under hashes for names.
_BESIDE_HUB = frozenset({"xet", "datasets", "assets", "modules", "blobs"})
# Where `hf download --local-dir` keeps what it knows and what has not arrived.
_CACHE = ".cache"
_LOCAL = f"{_CACHE}/huggingface"


def visit(reach: Reach, job: Job) -> Found:
    """What one directory holds, and the directories below it that are left to look at."""
    listing = reach.scan(job.path)
    folders = [entry.name for entry in listing.entries if entry.kind == "directory"]
    names = frozenset(entry.name for entry in listing.entries if entry.kind in {"file", "link"})
    links = frozenset(entry.name for entry in listing.entries if entry.kind == "link")
    if weights_hub.is_repository(job.path.rsplit("/", 1)[-1]) and "snapshots" in folders:
        return Found(further=(job._replace(kind=weights_hub.REPOSITORY),))
    if weights_ollama.is_store(folders):
        return Found(further=(job._replace(kind=weights_ollama.STORE),))
    folder = Folder(job.path, names, links)
    gguf = weights_gguf.models(reach, folder)
    whole = _whole(reach, folder, _CACHE in folders)
    below = () if whole or weights_names.PIPELINE in names else tuple(_below(job, folders))
    return Found((*gguf, *whole), below, listing.error, listing.cut)


def _whole(reach: Reach, folder: Folder, has_cache: bool) -> tuple[Sighting, ...]:
    """The weights that the directory as a whole is, if it is some."""
    is_model = "config.json" in folder.names
    if not is_model and not any(weights_names.is_weights(name) for name in folder.names):
        return ()
    commit, tree = _local_tree(reach, folder.path) if has_cache else (None, None)
    seen = weights_set.read_set(reach, replace(folder, tree=weights_set.loadable(tree)))
    if seen is None and is_model:
        fetching = [name for name in weights_names.awaited(folder.names) if weights_names.is_weights(name)]
        fetching += _fetching(reach, folder.path) if has_cache else []
        seen = weights_set.read_set(reach, replace(folder, fetching=tuple(fetching)))
    return () if seen is None else (seen._replace(weights=replace(seen.weights, layout=DIRECTORY, revision=commit)),)


def _local_tree(reach: Reach, path: str) -> tuple[str | None, Mapping[str, TreeFile] | None]:
    """The commit that was fetched into a directory and its list of files; of several nobody knows which it is."""
    trees = f"{path}/{_LOCAL}/trees"
    listed = [entry.name for entry in reach.scan(trees).entries if entry.name.endswith(".json")]
    if len(listed) != 1:
        return None, None
    return listed[0][: -len(".json")], weights_headers.tree(reach, f"{trees}/{listed[0]}")


def _fetching(reach: Reach, path: str) -> list[str]:
    """Files on their way into a directory, by the names that they have until then."""
    listed = reach.scan(f"{path}/{_LOCAL}/download").entries
    return [entry.name for entry in listed if entry.name.endswith(".incomplete")]


def _below(job: Job, folders: Iterable[str]) -> Iterator[Job]:
    folders = tuple(folders)
    is_cache = "hub" in folders or any(weights_hub.is_repository(name) for name in folders)
    for name in folders:
        path = f"{job.path.rstrip('/')}/{name}"
        if weights_hub.is_repository(name):
            yield Job(weights_hub.REPOSITORY, job.root, path, job.depth + 1)
        elif job.depth < _DEPTH and not _is_passed_over(name, is_cache):
            yield Job(DIRECTORY, job.root, path, job.depth + 1)


def _is_passed_over(name: str, is_cache: bool) -> bool:
    if name in _NO_MODELS or (name.startswith(".") and name not in _HIDDEN):
        return True
    return is_cache and (name in _BESIDE_HUB or name.startswith(("datasets--", "spaces--", "kernels--")))
