# SPDX-License-Identifier: BSD-2-Clause
"""One writer a directory, whichever host it is on: a lock for shared filesystems (D12). Private to llmgw.

Locks of the kernel do not reach other hosts on every share, so this one is made of files: `NAME.<number>`, of which the
one with the highest number counts. Only one process can make the next number, and nothing that another may hold is ever
removed: who took over a lock and who lost it agree whatever their order. The holder writes to its file every few
seconds. Where that stops for `stale_s`, by the clock of whoever waits, the holder is gone; on the holder's own host
that is seen at once, and when that host was started anew since.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Callable, Optional

BEAT_S = 5.0
STALE_S = 120.0
"""A share's client may show a file as it was a minute ago."""
_TICK_S = 0.5
_WIDTH = 1024
"""Bytes of the file: always the same, so that one write replaces all of it."""
_READ = 4 * _WIDTH
_LATEST = 2.0**40
"""Seconds: no clock says more, and no calendar goes as far."""
_PARTS = 3
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MACHINE = Path("/etc/machine-id")


class LockLost(Exception):  # noqa: N818 - it is somebody else's now
    """Another writer took the lock over, because this one was not heard of for too long."""


class LockHeld(Exception):  # noqa: N818 - nothing went wrong
    """Another writer holds the lock and did not let go in time; the message names it."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lock. `process` tells its process among all, `machine` its host; None where that is not known."""

    host: str
    pid: int
    since: float
    what: str = ""
    process: Optional[str] = None
    machine: Optional[str] = None
    beats: int = 0
    released: bool = False

    @classmethod
    def of(cls, said: Any) -> Optional[Holder]:
        """The holder that a file tells of; None when that is none. What a newer version may add is left out."""
        if not isinstance(said, dict) or not {"host", "pid", "since"} <= set(said):
            return None
        texts = [said.get(name, "") for name in ("host", "what")]
        texts += [said.get(name) or "" for name in ("process", "machine")]
        fits = all(isinstance(text, str) for text in texts)
        fits = fits and all(_is_whole(number) for number in (said["pid"], said.get("beats", 0)))
        fits = fits and isinstance(said["since"], (int, float)) and 0 <= said["since"] < _LATEST
        if not fits or not isinstance(said.get("released", False), bool):
            return None
        return cls(**{field.name: said[field.name] for field in fields(cls) if field.name in said})


class WriterLock:
    """A lock on `directory`. Use `take`, then `beat` every BEAT_S or less, then `release`."""

    def __init__(
        self, directory: str, *, stale_s: float = STALE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._directory = Path(directory)
        self._stale_s = stale_s
        self._clock = clock
        self._number: int | None = None
        self._holder: Holder | None = None
        self._beaten = 0.0

    def take(self, what: str, wait_s: float, on_wait: Callable[[Holder | None], None] | None = None) -> Holder | None:
        """Takes the lock; the holder that was gone when it was taken over, if one was. Raises LockHeld, OSError.

        `what` says to others what goes on; `on_wait` is told once who is waited for.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        deadline = self._clock() + wait_s
        watched: tuple[int, Holder | int | None] | None = None
        changed = self._clock()
        told = False
        while True:
            number, holder = self._highest()
            now = self._clock()
            # What cannot be read may still be alive: then its file is written to.
            look = (number, self._written(number) if holder is None else holder)
            if look != watched:
                watched, changed = look, now
            gone = number > 0 and (now - changed >= self._stale_s or (holder is not None and _is_gone(holder)))
            if (number == 0 or gone or (holder is not None and holder.released)) and self._make(number + 1, what):
                return holder if gone else None
            if now >= deadline:
                raise LockHeld(_sentence(holder, str(self._path(number)), wait_s))
            if not told and on_wait is not None and number > 0 and not gone:
                on_wait(holder)
                told = True
            time.sleep(min(_TICK_S, max(0.0, deadline - now)))

    def beat(self, what: str | None = None) -> None:
        """Says that the holder is alive, at most every BEAT_S. Raises LockLost."""
        now = self._clock()
        if self._number is None or self._holder is None:
            raise LockLost("the lock was never taken")
        if now - self._beaten < BEAT_S:
            return
        self._beaten = now
        number, _holder = self._highest()
        if number != self._number:
            raise LockLost(f"another writer took {self._path(number)} over")
        self._holder = replace(self._holder, beats=self._holder.beats + 1, what=what or self._holder.what)
        with contextlib.suppress(OSError):  # a full disk is no reason to let go; silence that lasts is
            self._write(self._number, self._holder)

    def release(self) -> None:
        """Lets go. The file stays: its number is what the next one counts from."""
        if self._number is not None and self._holder is not None:
            with contextlib.suppress(OSError):
                self._write(self._number, replace(self._holder, released=True))
        self._number = self._holder = None

    def _make(self, number: int, what: str) -> bool:
        """Makes the file of this number; False when somebody else was quicker."""
        holder = Holder(socket.gethostname(), os.getpid(), time.time(), what, _process(os.getpid()), _machine())
        try:
            handle = os.open(self._path(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            return False
        os.close(handle)
        self._write(number, holder)
        numbers = self._numbers()
        if max(numbers, default=number) != number:
            # This number was used up long ago, and removed since: the lock is at a higher one.
            self._path(number).unlink()
            return False
        for old in numbers:
            if old < number:
                with contextlib.suppress(OSError):
                    self._path(old).unlink()
        self._number, self._holder, self._beaten = number, holder, self._clock()
        return True

    def _highest(self) -> tuple[int, Holder | None]:
        """The number that counts, 0 when there is none, and who made it, None while that is not written yet."""
        number = max(self._numbers(), default=0)
        if number == 0:
            return 0, None
        try:
            # To open a file asks the server of a share, to look at it does not.
            return number, Holder.of(json.loads(self._read(number)))
        except (OSError, ValueError, RecursionError):
            return number, None

    def _read(self, number: int) -> bytes:
        handle = os.open(self._path(number), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.read(handle, _READ) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
        finally:
            os.close(handle)

    def _written(self, number: int) -> int | None:
        try:
            return os.lstat(self._path(number)).st_mtime_ns
        except OSError:
            return None

    def _numbers(self) -> list[int]:
        names = (name.rpartition(".") for name in os.listdir(self._directory))
        return [int(number) for stem, _dot, number in names if stem == "writer" and number.isdecimal()]

    def _path(self, number: int) -> Path:
        return self._directory / f"writer.{number}"

    def _write(self, number: int, holder: Holder) -> None:
        text = json.dumps(asdict(replace(holder, what=holder.what[: _WIDTH // 4])))
        handle = os.open(self._path(number), os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.pwrite(handle, text.ljust(_WIDTH).encode("ascii")[:_WIDTH], 0)
            os.fsync(handle)
        finally:
            os.close(handle)


def _is_gone(holder: Holder) -> bool:
    """Whether it was a process of this very host that has ended, or ended with the host. Where another process
    namespace is in between, nobody can tell.
    """
    own = _process(os.getpid())
    parts, own_parts = (holder.process or "").split(":"), (own or "").split(":")
    if len(parts) != _PARTS or len(own_parts) != _PARTS:
        return False
    (boot, namespace), (own_boot, own_namespace) = parts[:2], own_parts[:2]
    if boot != own_boot:
        return holder.machine is not None and (holder.machine, holder.host) == (_machine(), socket.gethostname())
    return namespace == own_namespace and _process(holder.pid) != holder.process


def _is_whole(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _machine() -> str | None:
    """What tells this host from others; copies of one image may have it in common, so their names must differ too."""
    try:
        return _MACHINE.read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def _process(pid: int) -> str | None:
    """`boot id:process namespace:start time` of a process: what its number alone is used again for."""
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
        namespace = os.readlink("/proc/self/ns/pid")
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    if fields[0] in ("Z", "X"):
        return None
    return f"{boot}:{namespace.strip('pid:[]')}:{fields[19]}"


def _sentence(holder: Holder | None, path: str, wait_s: float) -> str:
    named = "another writer"
    if holder is not None:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(holder.since))
        doing = f", {holder.what}" if holder.what else ""
        named = f"{holder.host} (pid {holder.pid}, since {since}{doing})"
    return f"{named} holds {path}, and did not let go within {wait_s:.0f} s"
