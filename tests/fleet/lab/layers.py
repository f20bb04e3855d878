# SPDX-License-Identifier: Apache-2.0
"""A cache of directory trees, each built once for its recipe: one builder at a time, and never seen half built."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fleet.lab.waiting import wait_until

LOCK_DEADLINE_S = 900.0
_BUILDING = "building-"


@dataclass(frozen=True, slots=True)
class Layer:
    """One directory tree: `build` fills an empty directory, `digest` changes when it would fill it otherwise."""

    name: str
    digest: str
    build: Callable[[Path], None]

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.digest[:12]}"


def say(message: str) -> None:
    """Progress, for a person who waits."""
    sys.stderr.write(f"lab: {message}\n")
    sys.stderr.flush()


@contextmanager
def held(cache: Path, layers: Sequence[Layer]) -> Iterator[tuple[Path, ...]]:
    """The directories of `layers` in the same order, built if need be; while held they are not pruned.

    What was built for an older recipe of a layer is removed unless another process still holds it.
    """
    cache.mkdir(parents=True, exist_ok=True)
    with ExitStack() as holding:
        with _locked(cache / "lock"):
            _build_missing(cache, layers)
            _prune(cache, layers)
            for layer in layers:
                tree = os.open(cache / layer.folder, os.O_RDONLY | os.O_DIRECTORY)
                holding.callback(os.close, tree)
                fcntl.flock(tree, fcntl.LOCK_SH)
        yield tuple(cache / layer.folder for layer in layers)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        if not _try_lock(lock.fileno()):
            say("another process is building what the lab's hosts are made of; waiting for it")
            wait_until(lambda: _try_lock(lock.fileno()), LOCK_DEADLINE_S, f"the builder that holds {path}")
        yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _build_missing(cache: Path, layers: Sequence[Layer]) -> None:
    for left_by_a_killed_builder in cache.glob(f"{_BUILDING}*"):
        shutil.rmtree(left_by_a_killed_builder)
    missing = [layer for layer in layers if not (cache / layer.folder).is_dir()]
    if not missing:
        return
    umask = os.umask(0o022)  # the hosts' plain users read what is made here
    try:
        # One waits for the network while another unpacks.
        with ThreadPoolExecutor(max_workers=len(missing)) as pool:
            for built in [pool.submit(_build, cache, layer) for layer in missing]:
                built.result()
    finally:
        os.umask(umask)


def _build(cache: Path, layer: Layer) -> None:
    started = time.monotonic()
    say(f"building {layer.name} in {cache}")
    with tempfile.TemporaryDirectory(prefix=_BUILDING, dir=cache) as workshop:
        tree = Path(workshop, "tree")
        tree.mkdir(mode=0o755)
        layer.build(tree)
        # The rename is what makes it exist, so a killed build leaves nothing that looks complete.
        tree.rename(cache / layer.folder)
    say(f"built {layer.name} in {time.monotonic() - started:.0f} s")


def _prune(cache: Path, layers: Sequence[Layer]) -> None:
    current = {layer.folder for layer in layers}
    for layer in layers:
        for tree in cache.glob(f"{layer.name}-*"):
            if tree.name in current:
                continue
            descriptor = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
            try:
                if _try_lock(descriptor):
                    say(f"removing {tree.name}: its recipe has changed")
                    shutil.rmtree(tree)
            finally:
                os.close(descriptor)
