# SPDX-License-Identifier: Apache-2.0
"""A machine made of dictionaries, with the methods of `host.Host`."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from ansible_collections.llmgw.fleet.plugins.module_utils.host import (
    MISSING,
    Entry,
    Host,
    Listing,
    Response,
    Result,
    Size,
)


class FakeHost(Host):
    """Files by path (text or bytes), links, sizes, space by path, commands by command line, answers by URL.

    Directories are those that a file lies in; `errors` has those that cannot be listed, and why. A command's value is a
    Result, or its standard output.
    """

    def __init__(
        self,
        files: Mapping[str, str | bytes] | None = None,
        *,
        commands: Mapping[str, Result | str] | None = None,
        links: Mapping[str, str] | None = None,
        sizes: Mapping[str, int] | None = None,
        space: Mapping[str, tuple[int, int]] | None = None,
        answers: Mapping[str, Response] | None = None,
        programs: Mapping[str, Result | str] | None = None,
        hanging: Sequence[str] = (),
        errors: Mapping[str, str] | None = None,
    ) -> None:
        self.files = dict(files or {})
        self.commands = dict(commands or {})
        self.links = dict(links or {})
        self.sizes = dict(sizes or {})
        self.space = dict(space or {})
        self.answers = dict(answers or {})
        self.programs = dict(programs or {})
        self.hanging = tuple(hanging)
        self.errors = dict(errors or {})
        self.ran: list[str] = []
        self.fetched: list[tuple[str, dict[str, str]]] = []

    def run(self, argv: Sequence[str], timeout_s: float, stdin: str | None = None) -> Result:
        del stdin
        line = " ".join(argv)
        self.ran.append(line)
        assert timeout_s > 0
        said = self.commands.get(line, Result(MISSING, "", f"{argv[0]}: command not found"))
        return Result(0, said, "") if isinstance(said, str) else said

    def python(self, name: str, program: str, timeout_s: float) -> Result:
        assert program
        assert timeout_s > 0
        said = self.programs.get(name, Result(1, "", "no module"))
        return Result(0, said, "") if isinstance(said, str) else said

    def which(self, command: str) -> str | None:
        known = any(line.split()[0] == command for line in self.commands)
        return f"/usr/bin/{command}" if known else None

    def read(self, path: str, limit: int = 1 << 22) -> bytes | None:
        content = self.files.get(self.realpath(path))
        if content is None:
            return None
        return (content.encode() if isinstance(content, str) else content)[:limit]

    def list(self, path: str) -> tuple[str, ...] | None:
        inside = f"{self.realpath(path).rstrip('/')}/"
        names = {known[len(inside) :].split("/")[0] for known in (*self.files, *self.links) if known.startswith(inside)}
        return tuple(sorted(names)) or None

    def scan(self, path: str, limit: int = 20_000) -> Listing:
        if path in self.hanging:
            raise TimeoutError(f"{path} hangs")
        names = self.list(path)
        if path in self.errors or names is None:
            absent = "ENOTDIR" if self.realpath(path) in self.files else "ENOENT"
            return Listing((), self.errors.get(path, absent))
        entries = (Entry(name, self._kind(f"{self.realpath(path).rstrip('/')}/{name}")) for name in names)
        return Listing(tuple(entries)[:limit], cut=len(names) > limit)

    def _kind(self, path: str) -> str:
        return "link" if path in self.links else "file" if path in self.files else "directory"

    def measure(self, directory: str, *names: str) -> tuple[Size, ...]:
        return tuple(self._size(os.path.normpath(f"{directory}/{name}")) for name in names)

    def _size(self, path: str) -> Size:
        size = self.size(path)
        return Size(size, None if size is not None or self.is_directory(path) else "ENOENT")

    def extract(self, path: str, what: str, extractor: Callable[[BinaryIO], bytes]) -> bytes | None:
        del what
        content = self.read(path, 1 << 40)
        return None if content is None else extractor(io.BytesIO(content))

    def readlink(self, path: str) -> str | None:
        return self.links.get(path)

    def realpath(self, path: str) -> str:
        for link, target in self.links.items():
            if path == link or path.startswith(f"{link}/"):
                return os.path.normpath(f"{Path(link).parent / target}{path[len(link) :]}")
        return path

    def exists(self, path: str) -> bool:
        if path in self.hanging:
            raise TimeoutError(f"{path} hangs")
        return path == "/" or self.realpath(path) in self.files or self.is_directory(path)

    def is_directory(self, path: str) -> bool:
        return self.list(path) is not None

    def size(self, path: str) -> int | None:
        real = self.realpath(path)
        content = self.read(real)
        return self.sizes.get(real, None if content is None else len(content))

    def statfs(self, path: str) -> tuple[int, int] | None:
        return self.space.get(path)

    def clock(self) -> float:
        return 1_700_000_000.0

    def machine(self) -> str:
        return "x86_64"

    def python_version(self) -> str:
        return "3.8.18"

    def home(self) -> str:
        return "/home/ops"

    def fetch(self, url: str, timeout_s: float, headers: dict[str, str]) -> Response:
        assert timeout_s > 0
        self.fetched.append((url, headers))
        return self.answers.get(url, Response(None, b"", "[Errno 111] Connection refused"))
