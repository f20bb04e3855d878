# SPDX-License-Identifier: BSD-2-Clause
"""Weights in a cache of huggingface_hub (D12): one entry a snapshot, that is a commit of a repository.

Private to llmgw. `models--org--name` holds `refs/<branch or tag>` (a commit), `snapshots/<commit>/` (links to blobs),
`blobs/` (files, since 2.x also links to a store that all repositories share), `trees/<commit>.json`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Iterable, Mapping

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import (
    weights_gguf,
    weights_headers,
    weights_set,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_folder import Folder, Sighting
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import Found, Job

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import Reach
    from ansible_collections.llmgw.fleet.plugins.module_utils.readings.hub_files import TreeFile

REPOSITORY = "repository"
_PREFIX = "models--"
_INCOMPLETE = ".incomplete"
_MOST_SNAPSHOTS = 50
_MOST_FOLDERS = 50
_MOST_REFS = 50
_REF_DEPTH = 3
_REF_BYTES = 256


def is_repository(name: str) -> bool:
    """Whether a directory of a cache is a repository of a model."""
    return name.startswith(_PREFIX) and len(name) > len(_PREFIX)


def hub_id(name: str) -> str:
    """`org/name` of `models--org--name`."""
    return name[len(_PREFIX) :].replace("--", "/")


def visit(reach: Reach, job: Job) -> Found:
    """The snapshots of one repository."""
    snapshots = reach.scan(f"{job.path}/snapshots")
    commits = [entry.name for entry in snapshots.entries if entry.kind == "directory"]
    refs = _refs(reach, job.path) if commits else {}
    fetching = _Fetching(reach, job.path)
    found: list[Sighting] = []
    for commit in commits[:_MOST_SNAPSHOTS]:
        named = tuple(sorted(ref for ref, target in refs.items() if target == commit))
        seen_here = _snapshot(reach, job.path, commit, fetching)
        found += [seen._replace(weights=replace(seen.weights, revision=commit, refs=named)) for seen in seen_here]
    if not found and fetching.names():
        found += _begun(reach, job.path, fetching.names())
    model = hub_id(job.path.rsplit("/", 1)[-1])
    cut = snapshots.cut or len(commits) > _MOST_SNAPSHOTS
    return Found(tuple(_owned(seen, model) for seen in found), error=snapshots.error, cut=cut)


def _owned(seen: Sighting, model: str) -> Sighting:
    if seen.weights.layout == weights_gguf.LAYOUT:
        return seen._replace(weights=replace(seen.weights, repository=model))
    return seen._replace(weights=replace(seen.weights, model=model, layout="hf-cache"))


class _Fetching:
    """Blobs of a repository that are on their way; those whose blob is there as well are left over from before."""

    def __init__(self, reach: Reach, repository: str) -> None:
        self._reach = reach
        self._blobs = f"{repository}/blobs"
        self._names: tuple[str, ...] | None = None

    def names(self) -> tuple[str, ...]:
        """Their names, read when first asked for."""
        if self._names is None:
            there = {entry.name for entry in self._reach.scan(self._blobs).entries}
            partial = sorted(name for name in there if name.endswith(_INCOMPLETE))
            self._names = tuple(name for name in partial if name.split(".")[0] not in there)
        return self._names


def _snapshot(reach: Reach, repository: str, commit: str, fetching: _Fetching) -> Iterable[Sighting]:
    path = f"{repository}/snapshots/{commit}"
    tree = weights_headers.tree(reach, f"{repository}/trees/{commit}.json")
    names: set[str] = set()
    links: set[str] = set()
    folders: list[str] = []
    for entry in reach.scan(path).entries:
        if entry.kind == "directory":
            folders.append(entry.name)
        else:
            names.add(entry.name)
            if entry.kind == "link":
                links.add(entry.name)
    found = list(_gguf(reach, path, tree, names, links))
    # Beside safetensors, directories have the same weights in other formats.
    has_safetensors = any(name.endswith(".safetensors") for name in names)
    for folder in () if has_safetensors else folders[:_MOST_FOLDERS]:
        entries = reach.scan(f"{path}/{folder}").entries
        inside = {entry.name for entry in entries}
        inside_links = {entry.name for entry in entries if entry.kind == "link"}
        found += _gguf(reach, f"{path}/{folder}", _below(tree, folder), inside, inside_links)
    known = None if found else weights_set.loadable(tree)
    whole = Folder(path, frozenset(names), frozenset(links), known, is_model=True)
    seen = weights_set.read_set(reach, whole)
    if seen is None and not found and fetching.names():
        seen = weights_set.read_set(reach, replace(whole, fetching=_named(fetching.names(), tree)))
    return found if seen is None else [*found, seen]


def _begun(reach: Reach, repository: str, fetching: tuple[str, ...]) -> Iterable[Sighting]:
    """A repository of which nothing has arrived: what is on its way, by the list of its files if that is there."""
    for entry in reach.scan(f"{repository}/trees").entries:
        commit, _dot, suffix = entry.name.rpartition(".")
        tree = weights_headers.tree(reach, f"{repository}/trees/{entry.name}") if suffix == "json" else None
        folder = Folder(f"{repository}/snapshots/{commit}", frozenset(), tree=weights_set.loadable(tree))
        seen = weights_set.read_set(reach, replace(folder, fetching=_named(fetching, tree)))
        if seen is not None:
            return (seen._replace(weights=replace(seen.weights, revision=commit)),)
    seen = weights_set.read_set(reach, Folder(repository, frozenset(), fetching=fetching))
    return () if seen is None else (seen,)


def _named(fetching: tuple[str, ...], tree: Mapping[str, TreeFile] | None) -> tuple[str, ...]:
    """The files that these blobs will be, where the tree says so."""
    files = {about.etag: path for path, about in (tree or {}).items() if about.etag is not None}
    return tuple(files.get(name.split(".")[0], name) for name in fetching)


def _gguf(
    reach: Reach, path: str, tree: Mapping[str, TreeFile] | None, names: Iterable[str], links: Iterable[str]
) -> tuple[Sighting, ...]:
    return weights_gguf.models(reach, Folder(path, frozenset(names), frozenset(links), tree))


def _below(tree: Mapping[str, TreeFile] | None, folder: str) -> Mapping[str, TreeFile]:
    """The part of a tree that is in a directory of it."""
    prefix = f"{folder}/"
    return {path[len(prefix) :]: about for path, about in (tree or {}).items() if path.startswith(prefix)}


def _refs(reach: Reach, repository: str) -> dict[str, str]:
    """Commits by the names of branches and tags: `main`, `refs/pr/1`."""
    found: dict[str, str] = {}
    ahead = [("", 0)]
    while ahead:
        below, depth = ahead.pop()
        for entry in reach.scan(f"{repository}/refs/{below}".rstrip("/")).entries:
            name = f"{below}/{entry.name}" if below else entry.name
            if entry.kind == "directory" and depth < _REF_DEPTH:
                ahead.append((name, depth + 1))
            elif entry.kind == "file" and len(found) < _MOST_REFS:
                commit = reach.read(f"{repository}/refs/{name}", _REF_BYTES)
                found[name] = (commit or b"").decode("ascii", "replace").strip()
    return found
