# SPDX-License-Identifier: BSD-2-Clause
"""A host that answers from a recording what the recorded machine answered, and touches the one it runs on nowhere.

Private to llmgw. A call that was not recorded is answered as if the file or the command did not exist.
"""

# ruff: noqa: D102 - Host says what each method gives
from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, Dict, Sequence, Tuple

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
    MISSING,
    READ_LIMIT,
    SCAN_LIMIT,
    Host,
    Listing,
    NoAnswer,
    Response,
    Result,
    Size,
)

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.capture.recording import Recording


class ReplayingHost(Host):
    """The recorded machine. The n-th time of a call gets the n-th answer, or the last there is."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._lock = threading.Lock()
        self._times: Dict[Call, int] = {}
        self._limits: Dict[Word, int] = {}
        for call in recording.calls:
            if call.method == "read" and isinstance(call.of[1], int):
                self._limits[call.of[0]] = max(call.of[1], self._limits.get(call.of[0], 0))

    def run(self, argv: Sequence[str], timeout_s: float, stdin: str | None = None) -> Result:
        del timeout_s
        missing = Result(MISSING, "", f"{argv[0]}: command not found")
        result: Result = self._answer("run", command(argv, stdin), missing)
        return result

    def python(self, name: str, program: str, timeout_s: float) -> Result:
        del program, timeout_s
        result: Result = self._answer("python", (name,), Result(MISSING, "", f"{name}: not in this capture"))
        return result

    def which(self, command: str) -> str | None:
        path: str | None = self._answer("which", (command,), None)
        return path

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes | None:
        # Where this much was never asked for, the most that was asked for is the nearest to it.
        asked = limit if Call("read", (path, limit)) in self._recording.calls else self._limits.get(path, limit)
        content: bytes | None = self._answer("read", (path, asked), None)
        return None if content is None else content[:limit]

    def list(self, path: str) -> tuple[str, ...] | None:
        names: tuple[str, ...] | None = self._answer("list", (path,), None)
        return names

    def scan(self, path: str, limit: int = SCAN_LIMIT) -> Listing:
        listing: Listing = self._answer("scan", (path, limit), Listing((), "ENOENT"))
        return listing

    def measure(self, directory: str, *names: str) -> tuple[Size, ...]:
        missing = tuple(Size(None, "ENOENT") for _name in names)
        sizes: tuple[Size, ...] = self._answer("measure", (directory, *names), missing)
        return sizes

    def extract(self, path: str, what: str, extractor: Callable[[BinaryIO], bytes]) -> bytes | None:
        del extractor
        content: bytes | None = self._answer("extract", (path, what), None)
        return content

    def readlink(self, path: str) -> str | None:
        target: str | None = self._answer("readlink", (path,), None)
        return target

    def realpath(self, path: str) -> str:
        real: str = self._answer("realpath", (path,), path)
        return real

    def exists(self, path: str) -> bool:
        there: bool = self._answer("exists", (path,), missing=False)
        return there

    def is_directory(self, path: str) -> bool:
        there: bool = self._answer("is_directory", (path,), missing=False)
        return there

    def size(self, path: str) -> int | None:
        size: int | None = self._answer("size", (path,), None)
        return size

    def statfs(self, path: str) -> tuple[int, int] | None:
        space: tuple[int, int] | None = self._answer("statfs", (path,), None)
        return space

    def clock(self) -> float:
        now: float = self._answer("clock", (), self._recording.made_at)
        return now

    def machine(self) -> str:
        architecture: str = self._answer("machine", (), "")
        return architecture

    def python_version(self) -> str:
        version: str = self._answer("python_version", (), "")
        return version

    def home(self) -> str:
        home: str = self._answer("home", (), "/")
        return home

    def variable(self, name: str) -> str | None:
        value: str | None = self._answer("variable", (name,), None)
        return value

    def fetch(self, url: str, timeout_s: float, headers: dict[str, str]) -> Response:
        del timeout_s, headers
        response: Response = self._answer("fetch", (url,), Response(None, b"", "not in this capture"))
        return response

    def _answer(self, method: str, of: Tuple[Word, ...], missing: Any) -> Any:
        """The recorded answer; `missing` where there is none. Raises NoAnswer where the machine did not answer."""
        call = Call(method, of)
        answers = self._recording.calls.get(call)
        if not answers:
            return missing
        with self._lock:
            time = self._times.get(call, 0)
            self._times[call] = time + 1
        answer: Answer = answers[min(time, len(answers) - 1)]
        if answer == UNANSWERED:
            raise NoAnswer(f"the machine did not answer: {method} {' '.join(map(str, of))}")
        return missing if answer == LEFT_OUT else SHAPES[method].restore(answer)
