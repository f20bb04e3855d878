# SPDX-License-Identifier: Apache-2.0
"""The facts cache: one JSON file a host, replaced atomically, with the last good one kept beside it (Q2, R11).

Layout of the directory: `HOST.json` (the newest facts), `previous/HOST.json` (the ones before), `HOST.unreachable`
(when a host was first and last tried in vain, and what was said). Losing the whole directory loses nothing: a refresh
fills it again.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
from dataclasses import asdict
from pathlib import Path
from urllib.parse import quote, unquote

from llmgw.errors import LlmgwError
from llmgw.fleet.facts import read_facts
from llmgw.fleet.hosts import Stored
from llmgw.nodekit import contract


def load(directory: Path, host: str) -> Stored:
    """What the cache holds of a host. Never raises for what a file holds: the error is part of the answer."""
    away = _unreachable(directory / f"{_file_name(host)}.unreachable")
    newest = directory / f"{_file_name(host)}.json"
    try:
        return Stored(_read(newest), None, *away)
    except LlmgwError as error:
        try:
            earlier = _read(directory / "previous" / newest.name)
        except LlmgwError:
            earlier = None
        if earlier is None:
            error.fix = _NOTHING_ELSE
        return Stored(earlier, error, *away)


def load_all(directory: Path) -> dict[str, Stored]:
    """What the cache holds of every host that it has a HOST.json of, as `load` tells it; empty without a cache."""
    try:
        stems = [path.name.removesuffix(".json") for path in directory.iterdir() if path.name.endswith(".json")]
    except OSError:
        return {}
    hosts = {stem: unquote(stem) for stem in sorted(stems)}
    return {host: load(directory, host) for stem, host in hosts.items() if host and _file_name(host) == stem}


def save(directory: Path, host: str, facts: contract.NodeFacts) -> None:
    """Make these the newest facts of a host, keep the ones before, and forget that it was unreachable.

    Raises LlmgwError `facts-unwritable`.
    """
    newest = directory / f"{_file_name(host)}.json"
    previous = directory / "previous" / newest.name
    try:
        previous.parent.mkdir(parents=True, exist_ok=True)
        if _readable(newest):
            _link_over(newest, previous)
        write_atomically(newest, json.dumps(asdict(facts), indent=1, sort_keys=True) + "\n")
        (directory / f"{_file_name(host)}.unreachable").unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(newest, error) from error


def mark_unreachable(directory: Path, host: str, now: float, reason: str) -> None:
    """Remember that a host did not answer now; the time of the first failure stays until it answers again.

    Raises LlmgwError `facts-unwritable`.
    """
    path = directory / f"{_file_name(host)}.unreachable"
    since = _unreachable(path)[0]
    note = {"since": now if since is None else since, "reason": reason, "last": now}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(note) + "\n")
    except OSError as error:
        raise _unwritable(path, error) from error


def write_atomically(path: Path, text: str) -> None:
    """Replace a file so that every reader sees the old or the new text, never a part, whatever is killed when."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _unwritable(path: Path, error: OSError) -> LlmgwError:
    reason = (error.strerror or type(error).__name__).lower()
    fix = "let the user who runs Ansible write there, or name another cache with --facts"
    return LlmgwError("facts-unwritable", f"facts cannot be kept: {reason}", where=str(path), fix=fix)


def _link_over(source: Path, target: Path) -> None:
    """Give a file a second name in one step; the first one stays until it is replaced.

    A copy where that is not possible: on some filesystems, and for a file of another user.
    """
    link = target.with_name(f".{target.name}.{os.getpid()}")
    link.unlink(missing_ok=True)
    try:
        os.link(source, link)
    except OSError:
        write_atomically(target, source.read_text(encoding="utf-8"))
    else:
        link.replace(target)


def _read(path: Path) -> contract.NodeFacts | None:
    try:
        data = _content(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LlmgwError(
            "facts-broken", f"the facts cannot be read: {error.strerror}", where=str(path), fix=_FIX
        ) from error
    try:
        return read_facts(data)
    except LlmgwError as error:
        raise LlmgwError(error.code, error.why, where=str(path), fix=error.fix) from error


def _content(path: Path) -> bytes:
    """What a file holds. Raises OSError, also for what is no file: reading a pipe or a device may never end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "this is no regular file", str(path))
    return path.read_bytes()


def _readable(path: Path) -> bool:
    try:
        return _read(path) is not None
    except LlmgwError:
        return False


def _unreachable(path: Path) -> tuple[float | None, str | None, float | None]:
    """First failure, what was said, last failure; all None when it answered, or the note makes no sense."""
    try:
        document = json.loads(_content(path))
        return float(document["since"]), str(document["reason"]), float(document["last"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None, None, None


def _file_name(host: str) -> str:
    """A host's name as a file name; nothing in it can leave the directory."""
    name = quote(host, safe="")
    return f"%2E{name[1:]}" if name.startswith(".") else name


_NOTHING_ELSE = (
    "run `llmgw facts refresh`: it reads the node again; none are stored that are older, so nothing is known of it"
)
_FIX = "run `llmgw facts refresh`: it reads the node again; until then the last good facts are used"
