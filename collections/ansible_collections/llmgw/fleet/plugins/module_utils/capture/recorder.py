# SPDX-License-Identifier: BSD-2-Clause
"""A host that answers as another does and remembers every call with its answer (D16).

Private to llmgw. Calls may come from several threads. A call that does not come back is remembered as unanswered.
"""

# ruff: noqa: D102 - Host says what each method gives
from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, Dict, List, Mapping, Sequence, Tuple, TypeVar

from ansible_collections.llmgw.fleet.plugins.module_utils.capture.answers import SHAPES
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.recording import (
    LEFT_OUT,
    UNANSWERED,
    Answer,
    Call,
    Word,
    command,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.host import (
    READ_LIMIT,
    SCAN_LIMIT,
    Host,
    Listing,
    Response,
    Result,
    Size,
)

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.capture.withheld import Withheld

_MOST_ANSWERS = 64
_LARGEST_ANSWER = 16 * 1024 * 1024
_MOST_BYTES = 64 * 1024 * 1024
_T = TypeVar("_T")


class RecordingHost(Host):
    """Answers as `host` does; `withheld` says what of it is not kept."""

    def __init__(self, host: Host, withheld: Withheld) -> None:
        self._host = host
        self._withheld = withheld
        self._lock = threading.Lock()
        self._calls: Dict[Call, List[Answer]] = {}
        self._room = _MOST_BYTES

    def calls(self) -> Mapping[Call, Tuple[Answer, ...]]:
        """The calls so far in the order of their first time, each with its answers up to the last that differs."""
        with self._lock:
            return {call: _shortest(map(self._withheld.known, answers)) for call, answers in self._calls.items()}

    def run(self, argv: Sequence[str], timeout_s: float, stdin: str | None = None) -> Result:
        return self._ask("run", command(argv, stdin), lambda: self._host.run(argv, timeout_s, stdin))

    def python(self, name: str, program: str, timeout_s: float) -> Result:
        return self._ask("python", (name,), lambda: self._host.python(name, program, timeout_s))

    def which(self, command: str) -> str | None:
        return self._ask("which", (command,), lambda: self._host.which(command))

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes | None:
        return self._ask("read", (path, limit), lambda: self._host.read(path, limit))

    def list(self, path: str) -> tuple[str, ...] | None:
        return self._ask("list", (path,), lambda: self._host.list(path))

    def scan(self, path: str, limit: int = SCAN_LIMIT) -> Listing:
        return self._ask("scan", (path, limit), lambda: self._host.scan(path, limit))

    def measure(self, directory: str, *names: str) -> tuple[Size, ...]:
        return self._ask("measure", (directory, *names), lambda: self._host.measure(directory, *names))

    def extract(self, path: str, what: str, extractor: Callable[[BinaryIO], bytes]) -> bytes | None:
        return self._ask("extract", (path, what), lambda: self._host.extract(path, what, extractor))

    def readlink(self, path: str) -> str | None:
        return self._ask("readlink", (path,), lambda: self._host.readlink(path))

    def realpath(self, path: str) -> str:
        return self._ask("realpath", (path,), lambda: self._host.realpath(path))

    def exists(self, path: str) -> bool:
        return self._ask("exists", (path,), lambda: self._host.exists(path))

    def is_directory(self, path: str) -> bool:
        return self._ask("is_directory", (path,), lambda: self._host.is_directory(path))

    def size(self, path: str) -> int | None:
        return self._ask("size", (path,), lambda: self._host.size(path))

    def statfs(self, path: str) -> tuple[int, int] | None:
        return self._ask("statfs", (path,), lambda: self._host.statfs(path))

    def clock(self) -> float:
        return self._ask("clock", (), self._host.clock)

    def machine(self) -> str:
        return self._ask("machine", (), self._host.machine)

    def python_version(self) -> str:
        return self._ask("python_version", (), self._host.python_version)

    def home(self) -> str:
        return self._ask("home", (), self._host.home)

    def variable(self, name: str) -> str | None:
        return self._ask("variable", (name,), lambda: self._host.variable(name))

    def fetch(self, url: str, timeout_s: float, headers: dict[str, str]) -> Response:
        return self._ask("fetch", (url,), lambda: self._host.fetch(url, timeout_s, headers))

    def _ask(self, method: str, of: Tuple[Word, ...], ask: Callable[[], _T]) -> _T:
        """What `ask` returns or raises, remembered either way."""
        call = self._withheld.call(method, of)
        with self._lock:
            answers = self._calls.setdefault(call, [])
            place = len(answers)
            if place < _MOST_ANSWERS:
                answers.append(UNANSWERED)
        given = ask()
        if place < _MOST_ANSWERS:
            kept = self._withheld.answer(Call(method, of), SHAPES[method].store(given))
            with self._lock:
                answers[place] = self._with_room(kept)
        return given

    def _with_room(self, answer: Answer) -> Answer:
        size = sum(map(len, answer.contents.values()))
        if size > min(_LARGEST_ANSWER, self._room):
            return LEFT_OUT
        self._room -= size
        return answer


def _shortest(answers: Any) -> Tuple[Answer, ...]:
    """The answers without those that repeat the one before them to the end: the last is given again and again."""
    kept = list(answers)
    while len(kept) > 1 and kept[-1] == kept[-2]:
        kept.pop()
    return tuple(kept)
