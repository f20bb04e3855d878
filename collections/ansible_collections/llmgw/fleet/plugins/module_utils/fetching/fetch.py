# SPDX-License-Identifier: BSD-2-Clause
"""Brings one model's weights into a hub cache, or says in a sentence why not (D12). Private to llmgw.

Whatever ends it at whatever moment, what has come stays and the next run goes on from there. Discovery calls the
weights complete only once all of them are there: what is small comes first, and the files with the tensors last.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching import child, files, links, room, sentences
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching.cache import DEFAULT_REVISION, Repository
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching.hub import Hub, HubError, environment
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching.listing import HubFile, Listing
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching.writer_lock import (
    STALE_S,
    Holder,
    LockHeld,
    LockLost,
    WriterLock,
)

THERE, FETCHED, WOULD_FETCH = "there", "fetched", "would fetch"
_OURS = ".llmgw"
_LOG_EVERY_S = 60.0


class FetchFailed(Exception):  # noqa: N818 - named for what happened, as the other outcomes are
    """The weights could not be fetched; the message is a sentence for people."""


@dataclass(frozen=True)
class Options:
    """Where to, by what, from where, and how long. Times in seconds; `token_file` None: nobody's token."""

    directory: str
    python: str
    endpoint: Optional[str] = None
    token_file: Optional[str] = None
    timeout_s: float = 6 * 3600
    stall_s: float = 600
    margin_bytes: int = 5 * room.GB
    stale_s: float = STALE_S
    resumed_from: int = 64 * 1024 * 1024
    """Bytes of a file from which on it is gone on with in its middle."""


@dataclass(frozen=True)
class Fetched:
    """What became of one model. `size_bytes`: of its weight files; `fetched_bytes`: those that this run brought."""

    hf_id: str
    action: str
    revision: Optional[str] = None
    commit: Optional[str] = None
    path: Optional[str] = None
    size_bytes: Optional[int] = None
    fetched_bytes: int = 0
    seconds: float = 0.0


@dataclass
class _Watch:
    """The limits of one fetch, looked at every second while the child works."""

    repository: Repository
    lock: WriterLock
    options: Options
    log: Callable[[str], None]
    deadline: float
    total: int = 0
    begun: int = 0
    seen: tuple[int, int] = (0, 0)
    grown_at: float = field(default_factory=time.monotonic)
    logged_at: float = field(default_factory=time.monotonic)
    holds: bool = False

    def tick(self) -> None:
        """Raises FetchFailed when it takes too long or nothing comes any more, LockLost when it is another's turn."""
        now = time.monotonic()
        if now >= self.deadline:
            raise FetchFailed(f"It took more than {self.options.timeout_s:g} s. What came stays; apply again.")
        growth = self.repository.growth()
        if growth != self.seen:
            self.seen, self.grown_at = growth, now
        elif now - self.grown_at >= self.options.stall_s:
            raise FetchFailed(f"Nothing came for {self.options.stall_s:g} s. What came stays; apply again.")
        came = max(0, growth[0] - self.begun)
        if self.holds:
            self.lock.beat(f"{self.repository.name}: {room.gb(came)} of {room.gb(self.total)}" if self.total else None)
        if self.total and now - self.logged_at >= _LOG_EVERY_S:
            self.logged_at = now
            self.log(f"{self.repository.name}: {room.gb(came)} of {room.gb(self.total)}")


def present(directory: str, hf_id: str, revision: Optional[str]) -> Optional[Weights]:
    """The weights, if discovery calls them complete and an engine finds them by this revision."""
    seen = Repository(directory, hf_id).seen(revision)
    return seen if seen is not None and seen.complete else None


def fetch(hf_id: str, revision: Optional[str], options: Options, log: Callable[[str], None]) -> Fetched:
    """Brings the weights, unless they are there. Raises FetchFailed."""
    begun = time.monotonic()
    seen = present(options.directory, hf_id, revision)
    if seen is not None:
        return _there(hf_id, revision, seen)
    asked = sentences.Asked(hf_id, revision or DEFAULT_REVISION, options.endpoint or sentences.HUB, options.token_file)
    repository = Repository(options.directory, hf_id)
    ours = os.path.join(options.directory, _OURS)
    lock = WriterLock(ours, stale_s=options.stale_s)
    watch = _Watch(repository, lock, options, log, begun + options.timeout_s)
    surroundings = environment(os.environ, os.path.join(ours, "hub"), options.endpoint, options.token_file)
    try:
        _check_links(options.directory, repository)
        with Hub(options.python, surroundings, f"weights of {hf_id}") as hub:
            answer = hub.ask({"do": "list", "repository": hf_id, "revision": asked.revision}, watch.tick)
            listed = Listing.of(answer)
            _check_seen(repository, listed.commit, asked.revision)
            _take(lock, hf_id, watch)
            try:
                watch.holds, watch.grown_at = True, time.monotonic()
                seen = present(options.directory, hf_id, revision)  # another writer may have brought them meanwhile
                if seen is not None:
                    return _there(hf_id, revision, seen)
                fetched_bytes = _bring(hub, listed, asked, watch)
            finally:
                lock.release()
    except HubError as error:
        raise FetchFailed(sentences.sentence(asked, error.kinds, error.message)) from None
    except (child.OddAnswer, child.LinkInTheWay) as odd:
        raise FetchFailed(sentences.sentence(asked, [type(odd).__name__], str(odd))) from None
    except LockHeld as held:
        raise FetchFailed(f"{held}: it is fetching there, and only one may. Apply again once it is through.") from None
    except LockLost as lost:
        raise FetchFailed(f"{lost}: this one was not heard of for too long. Apply again.") from None
    except files.NoWeights as none:
        raise FetchFailed(f"{hf_id} cannot be served by its id: {none}. Name its weights by `path` instead.") from None
    except OSError as error:
        raise FetchFailed(sentences.sentence(asked, [f"errno {error.errno}"], str(error))) from None
    seen = present(options.directory, hf_id, revision)
    seconds = time.monotonic() - begun
    size = seen.size_bytes if seen else None
    path = f"{repository.path}/snapshots/{listed.commit}"
    log(f"{hf_id}: fetched {room.gb(fetched_bytes)} in {seconds:.0f} s")
    return Fetched(hf_id, FETCHED, revision, listed.commit, path, size, fetched_bytes, seconds)


def _bring(hub: Hub, listed: Listing, asked: sentences.Asked, watch: _Watch) -> int:
    """Brings the files that are missing; how many bytes came."""
    repository, options = watch.repository, watch.options
    commit = listed.commit
    known = {one.name: one for one in listed.files}
    group = files.chosen_group(known)
    repository.clear()
    _check_links(options.directory, repository)  # what was waited for may have taken hours
    for name in repository.discard_broken(commit, tuple(known.values())):
        watch.log(f"{repository.name}: {name} has not the size that it should have, and is fetched again")
    watch.begun = repository.growth()[0]
    small = tuple(known[name] for name in files.beside(known, group))
    request: dict[str, Any] = {
        "do": "get",
        "repository": repository.name,
        "revision": asked.revision,
        "commit": commit,
        "cache": options.directory,
        "blobs": repository.blobs,
    }
    _check_room(repository, repository.missing(commit, small), margin=0)
    _get(hub, request, small, commit, watch)
    indexed = repository.index_files(commit, group.index)
    tensors = tuple(known[name] for name in files.weights(known, group, indexed))
    missing = repository.missing(commit, tensors)
    _check_room(repository, missing, margin=options.margin_bytes)
    watch.total = sum(size or 0 for _one, size in missing)
    if missing:
        watch.log(f"{repository.name}: fetching {room.gb(watch.total)} to {options.directory}")
    request["large"] = [
        {"name": one.name, "blob": one.blob, "size": one.size}
        for one, _size in missing
        if one.blob and (one.size or 0) >= options.resumed_from
    ]
    _get(hub, request, (*small, *tensors), commit, watch)
    if len(small) + len(tensors) < len(known) + listed.left_out:
        repository.forget_tree(commit)
    _verify(repository, asked.revision)
    return max(0, repository.growth()[0] - watch.begun)


def _get(hub: Hub, request: dict[str, Any], wanted: tuple[HubFile, ...], commit: str, watch: _Watch) -> None:
    answer = hub.ask({**request, "names": [one.name for one in wanted]}, watch.tick)
    if answer["commit"] != commit:
        raise FetchFailed(f"{request['revision']} was moved while it was fetched. Apply again, or name a commit.")


def _verify(repository: Repository, revision: str) -> None:
    """That discovery agrees."""
    seen = repository.seen(revision)
    if seen is None or seen.complete is False:
        lacks = ", ".join(seen.missing) if seen else "all of it"
        raise FetchFailed(
            f"The hub gave all that it lists, and the weights are not whole: {lacks} is missing or broken."
        )


def _check_links(directory: str, repository: Repository) -> None:
    found = links.in_the_way(directory, repository.folder)
    if found is not None:
        raise child.LinkInTheWay(found)


def _check_seen(repository: Repository, commit: str, revision: str) -> None:
    """That discovery will see what is fetched: else the bytes come for nothing."""
    why = repository.hidden(commit, revision)
    if why is not None:
        raise FetchFailed(f"Nothing was fetched, for nobody would find it: {why}.")


def _check_room(repository: Repository, missing: tuple[tuple[HubFile, Optional[int]], ...], *, margin: int) -> None:
    lacks = room.look(repository.blobs, (size for _one, size in missing), margin).lacks
    if lacks is not None:
        raise FetchFailed(f"{lacks}. Make room there, or name another directory first in llmgw_model_dirs.")


def _take(lock: WriterLock, hf_id: str, watch: _Watch) -> None:
    def on_wait(holder: Optional[Holder]) -> None:
        who = "another writer" if holder is None else f"{holder.host} (pid {holder.pid}), {holder.what}"
        watch.log(f"{hf_id}: waiting for {who}")

    gone = lock.take(hf_id, max(0.0, watch.deadline - time.monotonic()), on_wait)
    if gone is not None:
        watch.log(f"{hf_id}: {gone.host} (pid {gone.pid}) is gone and left its fetching undone: going on with it")


def _there(hf_id: str, revision: Optional[str], seen: Weights) -> Fetched:
    return Fetched(hf_id, THERE, revision, seen.revision, seen.path, seen.size_bytes)
