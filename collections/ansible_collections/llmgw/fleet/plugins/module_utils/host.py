# SPDX-License-Identifier: BSD-2-Clause
"""The one place where llmgw touches a machine (D16): run a command, read a file, list a directory, ask for space.

Private to llmgw. Nothing here raises for what a machine can do wrong: a missing command is rc 127, a missing file is
None. Everything is bounded in time or size. Another class with these methods can answer from stored outputs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import sys
import threading
import time
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, NamedTuple, Sequence, TypeVar

from ansible_collections.llmgw.fleet.plugins.module_utils import process
from ansible_collections.llmgw.fleet.plugins.module_utils.process import MISSING, UNUSABLE, Result

if TYPE_CHECKING:
    import socket

__all__ = ["MISSING", "READ_LIMIT", "SCAN_LIMIT", "UNUSABLE", "Host", "NoAnswer", "Response", "Result", "within"]

READ_LIMIT = 4 * 1024 * 1024
_CHUNK = 1024 * 1024
SCAN_LIMIT = 20_000
_MOUNT_TIMEOUT_S = 3.0
_SEARCH_TIMEOUT_S = 1.0
_STANDARD_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_SECRET = re.compile("token|secret|passw|credential|api_?key|(?<![a-z0-9])key", re.IGNORECASE)
_T = TypeVar("_T")


class NoAnswer(TimeoutError):  # noqa: N818 - a machine that is played back says so where the real one hung
    """There will be no answer, however long one waits."""


class Response(NamedTuple):
    """Answer to an HTTP request; `status` is None when none came, and `error` says why."""

    status: int | None
    body: bytes
    error: str | None = None


class Entry(NamedTuple):
    """One name in a directory; `kind` is its own, links not followed: file, directory, link or other."""

    name: str
    kind: str


class Listing(NamedTuple):
    """Entries by name. `error` names what stopped the listing (`ENOENT`, `EACCES`, `ESTALE`); `cut`: there are more."""

    entries: tuple[Entry, ...]
    error: str | None = None
    cut: bool = False


class Size(NamedTuple):
    """Bytes of a regular file. None with `error` when it could not be asked, without when it is something else."""

    bytes: int | None
    error: str | None = None


def within(seconds: float, function: Callable[[], _T]) -> _T:
    """What the function returns or raises; TimeoutError after `seconds`, with the function abandoned, not stopped.

    A call into a dead network filesystem cannot be interrupted by its own thread, but the process can still end.
    """
    outcome: dict[str, Any] = {}

    def call() -> None:
        try:
            outcome["value"] = function()
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            outcome["error"] = error

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    if "error" in outcome and not isinstance(outcome["error"], NoAnswer):
        raise outcome["error"]
    if "value" not in outcome:
        raise TimeoutError(f"no answer within {seconds:.1f} s")
    value: _T = outcome["value"]
    return value


class Host:
    """The real machine."""

    def run(self, argv: Sequence[str], timeout_s: float, stdin: str | None = None) -> Result:
        """How the command ended, with its output as text: `process.run` with LC_ALL=C and the system's directories."""
        return process.run(argv, timeout_s, _environment(), stdin)

    def python(self, name: str, program: str, timeout_s: float) -> Result:
        """How a Python program, given as text, ended in a process of its own; `name` says what it is for.

        For libraries that can hang or crash the process that calls them.
        """
        del name
        return self.run((sys.executable, "-"), timeout_s, program)

    def which(self, command: str) -> str | None:
        """Path of a command on the PATH, or None."""
        return shutil.which(command, path=_environment()["PATH"])

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes | None:
        """The first `limit` bytes of a regular file, or None when it cannot be read."""
        try:
            handle = _open(path)
        except (OSError, ValueError):
            return None
        chunks: list[bytes] = []
        try:
            while limit > 0:
                chunk = os.read(handle, min(limit, _CHUNK))
                if not chunk:
                    break
                chunks.append(chunk)
                limit -= len(chunk)
        except OSError:
            return None
        finally:
            os.close(handle)
        return b"".join(chunks)

    def list(self, path: str) -> tuple[str, ...] | None:
        """Sorted names in a directory, or None when it cannot be listed."""
        try:
            return tuple(sorted(entry.name for entry in Path(path).iterdir()))
        except (OSError, ValueError):
            return None

    def scan(self, path: str, limit: int = SCAN_LIMIT) -> Listing:
        """What is in a directory, by name, no more than `limit` of it. No entry is looked at: that costs one call."""
        found: list[Entry] = []
        error = None
        cut = False
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    cut = len(found) >= limit
                    if cut:
                        break
                    found.append(Entry(entry.name, _kind(entry)))
        except (OSError, ValueError) as raised:
            error = _errno(raised)
        return Listing(tuple(sorted(found)), error, cut)

    def measure(self, directory: str, *names: str) -> tuple[Size, ...]:
        """Sizes of these files of a directory, links followed, in the order of the names."""
        return tuple(_size(f"{directory}/{name}") for name in names)

    def extract(self, path: str, what: str, extractor: Callable[[BinaryIO], bytes]) -> bytes | None:
        """What the extractor makes of a regular file that it reads from the start, or None when it cannot be read.

        For the few words that matter in headers of megabytes. `what` names the extractor: a stored machine gives back
        what it made, and does not call it.
        """
        del what
        try:
            handle = _open(path)
            with open(handle, "rb", buffering=0) as stream:
                return extractor(stream)
        except (OSError, ValueError):
            return None

    def readlink(self, path: str) -> str | None:
        """Target of a symbolic link as written, or None."""
        try:
            return os.readlink(path)
        except (OSError, ValueError):
            return None

    def realpath(self, path: str) -> str:
        """The path with every symbolic link followed; parts that do not exist stay as they are."""
        try:
            return os.path.realpath(path)
        except (OSError, ValueError):
            return path

    def exists(self, path: str) -> bool:
        """Whether the path exists, links followed."""
        return _stat(path) is not None

    def is_directory(self, path: str) -> bool:
        """Whether the path is a directory, links followed."""
        found = _stat(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def size(self, path: str) -> int | None:
        """Size in bytes of a regular file, links followed; None for anything else."""
        found = _stat(path)
        return found.st_size if found is not None and stat.S_ISREG(found.st_mode) else None

    def statfs(self, path: str) -> tuple[int, int] | None:
        """Total bytes and bytes free to plain users of the filesystem that holds `path`; None also when it hangs."""
        try:
            found = within(_MOUNT_TIMEOUT_S, lambda: os.statvfs(path))
        except (OSError, ValueError):  # TimeoutError is an OSError
            return None
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def clock(self) -> float:
        """Now, in Unix seconds."""
        return time.time()

    def machine(self) -> str:
        """The processor architecture: `x86_64`, `aarch64`."""
        return os.uname().machine

    def python_version(self) -> str:
        """Version of the Python that runs this: `3.8.18`."""
        return ".".join(str(part) for part in sys.version_info[:3])

    def home(self) -> str:
        """Home directory of the user this runs as."""
        return str(Path("~").expanduser())

    def variable(self, name: str) -> str | None:
        """Value of an environment variable of this process, or None."""
        return os.environ.get(name)

    def fetch(self, url: str, timeout_s: float, headers: dict[str, str]) -> Response:
        """The answer to GET `url` (http or https), whole within `timeout_s`, from the first look for its address on.

        Proxies and redirects are not followed: headers go nowhere else.
        """
        import http.client  # noqa: PLC0415 - costs as much as the rest of discovery, and only gateway hosts need it
        from urllib.parse import urlsplit  # noqa: PLC0415

        try:
            parts = urlsplit(url)
            if parts.scheme not in {"http", "https"} or not parts.hostname:
                return Response(None, b"", "not an http or https URL")
            kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            connection = kind(parts.hostname, parts.port, timeout=timeout_s)
            path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"

            def get() -> Response:
                try:
                    connection.request("GET", path, None, headers)
                    answer = connection.getresponse()
                    return Response(answer.status, answer.read(READ_LIMIT))
                finally:
                    connection.close()

            try:
                return within(timeout_s, get)
            except TimeoutError:
                _hang_up(connection.sock)  # so that nobody goes on reading what comes drop by drop
                raise
        except (OSError, ValueError, http.client.HTTPException) as error:
            return Response(None, b"", str(error) or type(error).__name__)


def _hang_up(sock: socket.socket | None) -> None:
    """Ends a connection that another thread reads from."""
    with contextlib.suppress(OSError):
        if sock is not None:
            sock.shutdown(2)  # SHUT_RDWR


def _open(path: str) -> int:
    """Opens a regular file. Nothing else is even opened: that blocks on a pipe, and is an act on some devices."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "no regular file", path)
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def _stat(path: str) -> os.stat_result | None:
    try:
        return Path(path).stat()
    except (OSError, ValueError):
        return None


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _size(path: str) -> Size:
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        return Size(None, _errno(error))
    return Size(found.st_size if stat.S_ISREG(found.st_mode) else None)


def _errno(error: OSError | ValueError) -> str:
    """Name of an error number; that of a path that cannot be one is EINVAL."""
    number = error.errno if isinstance(error, OSError) and error.errno is not None else errno.EINVAL
    return errno.errorcode.get(number, f"errno {number}")


@lru_cache(maxsize=None)
def _answers(directory: str) -> bool:
    """Whether a directory answers: in one on a dead share every search for a command would hang."""
    try:
        within(_SEARCH_TIMEOUT_S, lambda: _stat(directory))
    except TimeoutError:
        return False
    return True


def _environment() -> dict[str, str]:
    """This process's environment with LC_ALL=C, the address of the user's manager, and on PATH the system's
    directories and none that hangs; without secrets, which a tool that fails may print (R10).
    """
    environment = {name: value for name, value in os.environ.items() if not _SECRET.search(name)}
    environment["LC_ALL"] = "C"
    path = [part for part in environment.get("PATH", "").split(os.pathsep) if part]
    listed = path + [part for part in _STANDARD_PATH if part not in path]
    environment["PATH"] = os.pathsep.join(part for part in listed if part in _STANDARD_PATH or _answers(part))
    runtime = f"/run/user/{os.getuid()}"
    # ssh without pam_systemd, sudo and su leave it out, and `systemctl --user` cannot do without.
    if "XDG_RUNTIME_DIR" not in environment and _stat(runtime) is not None:
        environment["XDG_RUNTIME_DIR"] = runtime
    return environment
