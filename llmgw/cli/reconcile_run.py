# SPDX-License-Identifier: Apache-2.0
"""What `llmgw reconcile` needs around its rounds: one at a time, signals, lines, metrics, words of its options."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import typer
from pydantic_core import PydanticCustomError

from llmgw.apply.lock import held
from llmgw.apply.reconcile_report import PROBLEM, News
from llmgw.apply.reconcile_state import LOCK
from llmgw.catalog.schema.durations import Duration
from llmgw.cli import exits
from llmgw.cli.style import printable
from llmgw.errors import LlmgwError

if TYPE_CHECKING:
    from llmgw.apply.reconcile_loop import Loop
    from llmgw.apply.reconcile_metrics import ReconcileCollector

RECONCILE_FORMAT = 1
_LAST_PORT = 65_535


class Ending:
    """Whether somebody wants an end: SIGTERM or SIGINT came, of which `interrupted` tells the latter."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.interrupted = False

    def hear(self, number: int, _frame: FrameType | None = None) -> None:
        """Handles a signal."""
        self.interrupted = self.interrupted or number == signal.SIGINT
        self.asked.set()


@contextmanager
def ending() -> Iterator[Ending]:
    """Signals that would end this process only ask for an end, for the length of a `with` block."""
    one = Ending()
    before = [(number, signal.signal(number, one.hear)) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        yield one
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@contextmanager
def alone(facts: Path) -> Iterator[None]:
    """Keeps every other `llmgw reconcile` away from this facts cache. Raises LlmgwError `reconcile-runs`."""
    facts.mkdir(parents=True, exist_ok=True)
    with held(facts / LOCK, 0) as holder:
        if holder is not None:
            raise LlmgwError(
                "reconcile-runs",
                f"another `llmgw reconcile` is at work for this fleet: {holder}",
                where=str(facts / LOCK),
                fix="leave it to that one, or end it first (as a timer: systemctl stop llmgw-reconcile.timer)",
            )
        yield


def rounds(loop: Loop, told: Callable[[], None], end: Ending, say: Callable[[News], None], seconds: float) -> int:
    """Rounds until somebody wants an end. Returns 0 after SIGTERM unless an apply was cut short, else 130."""
    cut, trouble = False, ""
    while not end.asked.is_set():
        begun = time.monotonic()
        try:
            cut = loop.round().cut
            trouble = ""
        except LlmgwError as error:
            # What cannot be remembered is not done; it may be the disk, which somebody will see to.
            if str(error) != trouble:
                trouble = str(error)
                say(News(PROBLEM, trouble, {"code": error.code}))
        told()
        end.asked.wait(max(0.0, seconds - (time.monotonic() - begun)))
    return exits.INTERRUPTED if cut or end.interrupted else exits.OK


_LAST_WORDS = {
    "in-order": "Nothing to do: the fleet is as the catalog wants it.",
    "mended": "Mended: the fleet is as the catalog wants it.",
    "withheld": "Not mended, for the reasons above; `llmgw apply` does it by hand.",
    "would-mend": "Nothing was changed: a round without --dry-run would do this.",
    "changed": "Nothing was done: what the plan was made from had changed by then. The next round looks again.",
    "failed": "The apply failed, see above; what serves goes on serving.",
    "error": "Nothing was done, see above.",
    "interrupted": "Interrupted; the next round or `llmgw apply` finishes what was begun.",
}
"""Of one round that somebody looks at, by how it ended."""


def last_word(outcome: str) -> str:
    """What a person who asked for one round is told at its end."""
    return _LAST_WORDS[outcome]


def speaker(*, as_json: bool, timed: bool) -> Callable[[News], None]:
    """Prints news on stdout, with `timed` behind the time of day."""

    def say(news: News) -> None:
        now = datetime.now(UTC)
        if as_json:
            at = f"{now:%Y-%m-%dT%H:%M:%SZ}"
            print(json.dumps({"format_version": RECONCILE_FORMAT, "at": at, **news.document()}), flush=True)
        elif news.message.strip():
            print(printable(f"{now:%H:%M:%SZ} {news.text()}" if timed else news.text()), flush=True)

    return say


def teller(collector: ReconcileCollector, file: Path | None, listen: tuple[str, int] | None) -> Callable[[], None]:
    """Serves the metrics, where that is asked for; what it returns writes them into the file. Raises LlmgwError
    `metrics-listen`.
    """
    if file is None and listen is None:
        return lambda: None
    from prometheus_client import start_http_server, write_to_textfile

    from llmgw.apply.reconcile_metrics import registry

    families = registry(collector)
    if listen is not None:
        try:
            start_http_server(listen[1], listen[0], families)
        except OSError as error:
            why = f"metrics cannot be served on {listen[0]} port {listen[1]}: {error.strerror or error}"
            fix = "name another address with --metrics-listen, or end what listens there"
            raise LlmgwError("metrics-listen", why, fix=fix) from error

    def write() -> None:
        if file is None:
            return
        try:
            write_to_textfile(str(file), families)
        except OSError as error:
            print(printable(_unwritten(file, error.strerror or str(error))), file=sys.stderr, flush=True)

    return write


def checked(file: Path | None) -> None:
    """Raises LlmgwError `metrics-file` where a file of metrics could never be written."""
    if file is not None and not (file.parent.is_dir() and os.access(file.parent, os.W_OK)):
        raise _unwritten(file, "its folder is not there, or this user may not write to it")


def _unwritten(file: Path, why: str) -> LlmgwError:
    fix = "make the folder, or name another file with --metrics-file"
    return LlmgwError("metrics-file", f"metrics cannot be written: {why}", where=str(file), fix=fix)


def duration(text: str) -> float:
    """The seconds of `60s`, `5m` or `90`. Raises BadParameter."""
    try:
        value: object = int(text) if re.fullmatch("[0-9]{1,9}", text) else text
        return float(Duration(least=1, whole=False).seconds(value))
    except PydanticCustomError as error:
        raise typer.BadParameter(f"{error.message()}. {(error.context or {}).get('fix', '')}") from error


def address(text: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:9108` or `[::1]:9108`. Raises BadParameter."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not re.fullmatch("[0-9]{1,5}", port) or not 1 <= int(port) <= _LAST_PORT:
        raise typer.BadParameter(f"{text} is no address with a port, such as 127.0.0.1:9108 or [::]:9108")
    return host, int(port)
