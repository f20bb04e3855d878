# SPDX-License-Identifier: BSD-2-Clause
"""A search through model directories that ends (D12): bounded in calls, in time, and by what a dead share costs.

Private to llmgw. The search runs in a thread, and the caller watches how long its present call takes. A call that does
not come back loses that thread and everything below its mount; another thread goes on with the rest.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Callable, Iterable, NamedTuple, TypeVar

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_folder import Sighting

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host, Listing, Size

_NAMES_A_CALL = 500
"""Names that a directory gives in one call of the system, roughly."""
_LOOK_S = 0.2
_DENIED = frozenset({"EACCES", "EPERM"})
# What was removed since its name was read is nothing to speak of.
_GONE = frozenset({"ENOENT", "ENOTDIR"})
_T = TypeVar("_T")


class Job(NamedTuple):
    """A directory to look at: what it is, the model directory it is below, and how far."""

    kind: str
    root: str
    path: str
    depth: int = 0


class Found(NamedTuple):
    """What one directory gave. `error` is what its listing ended with; `cut`: there is more in it than was read."""

    seen: tuple[Sighting, ...] = ()
    further: tuple[Job, ...] = ()
    error: str | None = None
    cut: bool = False


@dataclass
class Outcome:
    """All that was found. `unfinished` are model directories, the rest are paths; `failed` says why as well."""

    seen: list[Sighting] = field(default_factory=list)
    unfinished: set[str] = field(default_factory=set)
    too_many: bool = False
    denied: list[str] = field(default_factory=list)
    hanging: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)


class Bounds(NamedTuple):
    """Seconds for everything and for one call, calls, and weights."""

    budget_s: float
    answer_s: float = 5.0
    calls: int = 40_000
    most: int = 500


class _Over(Exception):  # noqa: N818 - nothing went wrong: the search is over
    """This thread has nothing more to do."""


class Reach:
    """What the search may ask of the machine, in one thread. Its methods are those of Host, and count their cost."""

    def __init__(self, host: Host, calls: int, frugal_below: int, frugal_from: float) -> None:
        self._host = host
        self._left = calls
        self._frugal_below = frugal_below
        self._frugal_from = frugal_from
        self.abandoned = False
        self.spent = False
        self.job: Job | None = None
        self.asking: tuple[str, float] | None = None

    @property
    def left(self) -> int:
        """Calls that may still be made."""
        return self._left

    @property
    def has_plenty(self) -> bool:
        """Whether there are calls and time for what is good to know, besides what has to be known."""
        return self._left > self._frugal_below and time.monotonic() < self._frugal_from

    def scan(self, path: str) -> Listing:
        """What is in a directory."""
        listing = self._ask(path, 1, lambda: self._host.scan(path))
        self._left -= len(listing.entries) // _NAMES_A_CALL
        return listing

    def measure(self, directory: str, names: Iterable[str]) -> dict[str, Size]:
        """The sizes of these files, links followed."""
        asked = tuple(names)
        if not asked:
            return {}
        return dict(zip(asked, self._ask(directory, len(asked), lambda: self._host.measure(directory, *asked))))

    def read(self, path: str, limit: int) -> bytes | None:
        """The first bytes of a file."""
        return self._ask(path, 1, lambda: self._host.read(path, limit))

    def extract(self, path: str, what: str, extractor: Callable[[BinaryIO], bytes]) -> bytes | None:
        """What the extractor makes of a file."""
        return self._ask(path, 1, lambda: self._host.extract(path, what, extractor))

    def realpath(self, path: str) -> str:
        """The path with every link followed."""
        return self._ask(path, 1, lambda: self._host.realpath(path))

    def _ask(self, path: str, cost: int, call: Callable[[], _T]) -> _T:
        self.spent = self.spent or self._left < cost
        if self.abandoned or self.spent:
            raise _Over
        self._left -= cost
        self.asking = (path, time.monotonic())
        try:
            return call()
        finally:
            self.asking = None


class Search:
    """One search. `visit` looks at a job's directory; `place` says which mount a path is on, without touching it."""

    def __init__(
        self, host: Host, bounds: Bounds, visit: Callable[[Reach, Job], Found], place: Callable[[str], str]
    ) -> None:
        self._host = host
        self._bounds = bounds
        self._visit = visit
        self._place = place
        self._ahead: dict[str, deque[Job]] = {}
        self._seen: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self._outcome = Outcome()

    def run(self, jobs: Iterable[Job]) -> Outcome:
        """Looks at these jobs and all that come of them, model directories in turn."""
        begun = time.monotonic()
        deadline = begun + self._bounds.budget_s
        self._add(jobs)
        left, spent = self._bounds.calls, False
        while any(self._ahead.values()) and not spent and time.monotonic() < deadline:
            reach = Reach(self._host, left, self._bounds.calls // 2, begun + self._bounds.budget_s / 3)
            thread = threading.Thread(target=self._work, args=(reach,), daemon=True)
            thread.start()
            self._watch(thread, reach, deadline)
            left, spent = reach.left, reach.spent
        with self._lock:
            self._outcome.unfinished.update(root for root, ahead in self._ahead.items() if ahead)
            return self._outcome

    def _watch(self, thread: threading.Thread, reach: Reach, deadline: float) -> None:
        """Waits for a thread until it ends, its call hangs, or time is up."""
        while thread.is_alive():
            now = time.monotonic()
            asking = reach.asking
            hangs = asking is not None and now - asking[1] >= self._bounds.answer_s
            if hangs or now >= deadline:
                with self._lock:
                    reach.abandoned = True
                    if not hangs and reach.job is not None:
                        self._outcome.unfinished.add(reach.job.root)
                if asking is not None and hangs:
                    self._hangs(asking[0])
                return
            thread.join(min(_LOOK_S, self._bounds.answer_s, deadline - now))

    def _work(self, reach: Reach) -> None:
        while not reach.abandoned:
            reach.job = job = self._next()
            if job is None:
                return
            found = Found()
            failure = None
            try:
                found = self._visit(reach, job)
            except _Over:
                self._keep(reach, job, Found(cut=True))
                return
            except TimeoutError:
                self._hangs(job.path)
                continue
            except Exception as error:  # noqa: BLE001 - whatever one directory does, the others are looked at (D15)
                failure = f"{type(error).__name__}: {error}"
            self._keep(reach, job, found, failure)

    def _next(self) -> Job | None:
        """The next job, of the model directory whose turn it is."""
        with self._lock:
            for root in list(self._ahead):
                ahead = self._ahead.pop(root)
                self._ahead[root] = ahead
                if ahead:
                    return ahead.popleft()
        return None

    def _keep(self, reach: Reach, job: Job, found: Found, failure: str | None = None) -> None:
        with self._lock:
            if reach.abandoned:
                return
            self._outcome.seen.extend(found.seen)
            failure = failure or (found.error if found.error not in _GONE else None)
            if failure in _DENIED:
                self._outcome.denied.append(job.path)
            elif failure is not None:
                self._outcome.failed.append((job.path, failure))
            if found.cut:
                self._outcome.unfinished.add(job.root)
            if len(self._outcome.seen) >= self._bounds.most and (found.further or any(self._ahead.values())):
                self._outcome.too_many = True
                self._ahead.clear()
                return
        self._add(found.further)

    def _add(self, jobs: Iterable[Job]) -> None:
        with self._lock:
            for job in jobs:
                ahead = self._ahead.setdefault(job.root, deque())
                if (job.kind, job.path) in self._seen:
                    continue
                if len(ahead) >= self._bounds.calls // len(self._ahead):
                    # There will be no call left to look at it.
                    self._outcome.unfinished.add(job.root)
                    continue
                self._seen.add((job.kind, job.path))
                ahead.append(job)

    def _hangs(self, path: str) -> None:
        """Gives up a path and what else is ahead on its mount."""
        place = self._place(path)
        with self._lock:
            self._outcome.hanging.append(path)
            for root, ahead in self._ahead.items():
                self._ahead[root] = deque(job for job in ahead if self._place(job.path) != place)
