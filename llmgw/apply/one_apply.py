# SPDX-License-Identifier: Apache-2.0
"""One apply at a time on a controller: a second one is refused at once, instead of crossing the first on its hosts."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from llmgw.apply import history
from llmgw.apply.lock import held
from llmgw.apply.processes import Process, process
from llmgw.apply.who import whoami
from llmgw.errors import LlmgwError

LOCK = ".apply.lock"
"""In the facts cache; no host has a file of this name."""
_RECORDS = 20
"""An apply that runs is among the newest."""


@contextmanager
def the_only_apply(facts: Path, directory: Path) -> Iterator[None]:
    """Holds the fleet of that facts cache for the length of a `with` block. `directory`: its history, which tells of
    applies that nobody began by `llmgw apply`, and of an Ansible that goes on after its llmgw was killed.

    Raises LlmgwError `apply-runs`, and `facts-unwritable` where no lock can be kept.
    """
    with suppress(OSError):  # `held` tells why not
        facts.mkdir(parents=True, exist_ok=True)
    path = facts / LOCK
    with held(path, 0) as holder:
        if holder is not None:
            raise _runs(_holder(path) or f"an apply runs already: {holder}", path)
        running = _running(directory, time.time())
        if running is not None:
            raise _runs(running, directory)
        with suppress(OSError):  # a full disk keeps nobody from working under the lock
            said = {"pid": os.getpid(), "since": time.time(), "by": whoami()}
            path.write_text(json.dumps(said), encoding="ascii")
        yield


def _holder(path: Path) -> str | None:
    with suppress(OSError, ValueError, TypeError, KeyError, OverflowError):
        said = json.loads(path.read_text(encoding="ascii"))
        return _in_words(str(said["by"]), float(said["since"]), int(said["pid"]))
    return None


def _running(directory: Path, now: float) -> str | None:
    """The apply that runs on this machine by the history: of one elsewhere nobody here knows whether it still does."""
    here = process(os.getpid())
    for one in history.read(directory, now, _RECORDS).records:
        if one.outcome == history.RUNNING and one.process.pid is not None and _is_seen(one.process, here):
            return _in_words(one.by, one.began, one.process.pid)
    return None


def _is_seen(one: Process, here: Process) -> bool:
    return (one.host, one.boot_id, one.namespace) == (here.host, here.boot_id, here.namespace)


def _in_words(by: str, since: float, pid: int) -> str:
    return f"an apply of {by} runs since {datetime.fromtimestamp(since, UTC):%H:%M} UTC (process {pid})"


def _runs(what: str, where: Path) -> LlmgwError:
    return LlmgwError("apply-runs", f"{what}; nothing was begun", where=str(where), fix="wait for it, or end it")
