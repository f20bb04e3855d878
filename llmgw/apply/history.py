# SPDX-License-Identifier: Apache-2.0
"""The history of applies: one JSON file for each that changes something, kept on the controller (R3, R11).

Layout of the directory: `TIME-ID.json`, written when an apply begins to carry out its plan and replaced when it ends;
`catalogs/DIGEST.json`, the files of each catalog that was applied, once. Losing the directory loses nothing that
runs: only what was done when is no longer known, and there is nothing to roll back to.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from llmgw.apply.processes import Process, is_gone, process
from llmgw.errors import LlmgwError
from llmgw.fleet.store import write_atomically

HISTORY_FORMAT = 1
NAME = "history"
"""Of the directory, beside the facts cache."""
KEEP_VARIABLE = "LLMGW_HISTORY_KEEP"
KEPT = 500
NEEDED = 20
"""Of so many catalogs the newest apply that went well is kept, whatever the limit: however often one catalog is applied
again, there must be another to go back to.
"""

RUNNING = "running"
DONE = "done"
FAILED = "failed"
OVERTAKEN = "overtaken"
INTERRUPTED = "interrupted"
ROLLBACK = "rollback"
"""What the command of an apply begins with that goes back."""

_SENTENCES_KEPT = 200
_LONGEST_SENTENCE = 4000
_CLOSED_AMONG = 50
"""An apply that was cut off is among the newest records."""
_END_OF_TIME = 1e11
"""Unix seconds that no calendar has."""
_TIME = "%Y%m%dT%H%M%S.%fZ"
_NAME = re.compile(r"\d{8}T\d{6}\.\d{3}Z-.+\.json")
_FIX_WRITE = (
    "let the user who runs Ansible write there, or name another directory with --history (llmgw_history_dir in a"
    " playbook run); the apply itself goes on"
)
_FIX_FILE = "move it out of the history; nothing else needs it"


@dataclass(frozen=True, slots=True)
class Changed:
    """What an apply was to do with one replica: a kind of action, and where."""

    kind: str
    replica: str
    nodes: tuple[str, ...] = ()
    from_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """The catalog of an apply: its digest, and the path that it was read from."""

    digest: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One apply. Times are Unix seconds; `ended` None: it runs, or was cut off. `outcome` is one of the words above."""

    id: str
    generation: int
    began: float
    outcome: str
    catalog: Source
    format_version: int = HISTORY_FORMAT
    ended: float | None = None
    by: str = "?"
    command: str = "?"
    summary: str = ""
    actions: tuple[Changed, ...] = ()
    actions_left_out: int = 0
    withheld: tuple[Changed, ...] = ()
    """What the plan would have done too, and did not, since a service could not be rolled out."""
    withheld_left_out: int = 0
    partly: bool = False
    """Whether some service was left as it was, however well all else went: this catalog never served as a whole."""
    last_generation: int | None = None
    """The highest that its bundles can have. None: not known."""
    planned: str = ""
    """Of the plan, as llmgw.apply.saved.planned_digest tells plans apart."""
    waves: tuple[str, ...] = ()
    """Their titles."""
    failure: tuple[str, ...] = ()
    process: Process = field(default_factory=Process)


@dataclass(frozen=True, slots=True)
class History:
    """Records, the newest first, and one error for every file that is none."""

    records: tuple[Record, ...]
    problems: tuple[LlmgwError, ...] = ()


def directory_of(facts: Path, given: Path | None = None) -> Path:
    """Where the history of a fleet is: where it was said to be, else beside the facts cache."""
    return given or facts.parent / NAME


def begin(directory: Path, run: str, record: Mapping[str, Any], command: str, now: float) -> list[str]:
    """Writes that an apply begins, by `record_of`, and keeps its catalog; `run` is its id. Returns warnings: nothing
    that goes wrong here stops an apply. The process that carries it out is the parent of this one: Ansible's own.
    """
    document = {
        **record,
        "format_version": HISTORY_FORMAT,
        "id": run,
        "command": command,
        "began": now,
        "ended": None,
        "outcome": RUNNING,
        "failure": [],
        "process": asdict(process(os.getppid())),
    }
    path = directory / f"{_time(now)}-{quote(run, safe='')}.json"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_atomically(path, _text(document))
    except OSError as error:
        return [_unwritable(path, error)]
    from llmgw.apply import history_catalogs  # noqa: PLC0415 - reading a catalog takes a while to import

    source = record.get("catalog") or {}
    warnings = history_catalogs.keep(directory, Path(str(source.get("path"))), str(source.get("digest")))
    return [*warnings, *_prune(directory, path, now)]


def end(directory: Path, run: str, outcome: str, failure: Sequence[str], now: float) -> list[str]:
    """Writes how an apply ended. Returns warnings, as `begin` does."""
    try:
        name = f"{quote(run, safe='')}.json"
        found = next((path for path in _files(directory) if path.name.partition("-")[2] == name), None)
        if found is None:
            return []  # its beginning could not be written, and that was told
        return _ended(found, _document(found), outcome, failure, now)
    except OSError as error:
        return [_unwritable(directory, error)]
    except LlmgwError as error:
        return [str(error)]


def close(directory: Path, now: float, outcome: str = INTERRUPTED) -> list[str]:
    """Writes that applies of this machine whose process is gone were cut off. Returns warnings, as `begin` does."""
    warnings: list[str] = []
    for path in _files(directory)[:_CLOSED_AMONG]:
        try:
            record = _record(path)
            if record.outcome == RUNNING and is_gone(record.process, record.began, now):
                warnings += _ended(path, _document(path), outcome, record.failure, now)
        except LlmgwError:
            continue  # `read` tells of it
    return warnings


def read(directory: Path, now: float, most: int | None = None) -> History:
    """The newest records, `most` of them; None: all. Raises nothing: a directory that is not there has none."""
    records: list[Record] = []
    problems: list[LlmgwError] = list(_foreign(directory))
    for one in _each(directory, now):
        if most is not None and len(records) >= most:
            break
        if isinstance(one, LlmgwError):
            problems.append(one)
        else:
            records.append(one)
    return History(tuple(records), tuple(problems))


def _each(directory: Path, now: float) -> Iterator[Record | LlmgwError]:
    for path in _files(directory):
        try:
            record = _record(path)
        except LlmgwError as error:
            yield error
        else:
            gone = record.outcome == RUNNING and is_gone(record.process, record.began, now)
            yield replace(record, outcome=INTERRUPTED) if gone else record


def _files(directory: Path) -> list[Path]:
    """The files of records, the newest first."""
    try:
        return sorted((path for path in directory.iterdir() if _NAME.fullmatch(path.name)), reverse=True)
    except OSError:
        return []


def _foreign(directory: Path) -> Iterator[LlmgwError]:
    try:
        names = sorted(path.name for path in directory.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        fix = "let this user read the directory"
        yield LlmgwError("history-broken", f"the history cannot be read: {_why(error)}", where=str(directory), fix=fix)
        return
    for name in names:
        if name.endswith(".json") and not name.startswith(".") and not _NAME.fullmatch(name):
            where = str(directory / name)
            yield LlmgwError("history-broken", "this is no record of an apply", where=where, fix=_FIX_FILE)


def _record(path: Path) -> Record:
    document = _document(path)
    try:
        record = _records().validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        what = f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
        why = f"a record that makes no sense ({what})"
        raise LlmgwError("history-broken", why, where=str(path), fix=_FIX_FILE) from error
    for moment in (record.began, record.ended):
        if moment is not None and not 0 <= moment < _END_OF_TIME:
            raise LlmgwError("history-broken", "a record of no time that there is", where=str(path), fix=_FIX_FILE)
    return record


def _document(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises LlmgwError `history-broken`, `history-newer`."""
    try:
        if not path.is_file():
            raise LlmgwError("history-broken", "this is no regular file", where=str(path), fix=_FIX_FILE)
        document = json.loads(path.read_bytes())
    except OSError as error:
        fix = "let this user read the file"
        raise LlmgwError("history-broken", f"the record cannot be read: {_why(error)}", where=str(path), fix=fix) from (
            error
        )
    except (ValueError, RecursionError) as error:
        why = "the record is cut off or broken: it is no JSON"
        raise LlmgwError("history-broken", why, where=str(path), fix=_FIX_FILE) from error
    if not isinstance(document, dict):
        raise LlmgwError("history-broken", "this is no record of an apply", where=str(path), fix=_FIX_FILE)
    version = document.get("format_version")
    if isinstance(version, int) and version > HISTORY_FORMAT:
        why = f"the record was written by a newer llmgw (format {version}; this one reads {HISTORY_FORMAT})"
        raise LlmgwError("history-newer", why, where=str(path), fix="look at it with that llmgw")
    return document


@cache
def _records() -> TypeAdapter[Record]:
    return TypeAdapter(Record)


def _ended(path: Path, document: dict[str, Any], outcome: str, failure: Sequence[str], now: float) -> list[str]:
    said = [str(line)[:_LONGEST_SENTENCE] for line in failure[:_SENTENCES_KEPT]]
    try:
        write_atomically(path, _text({**document, "outcome": outcome, "ended": now, "failure": said}))
    except OSError as error:
        return [_unwritable(path, error)]
    return []


def _prune(directory: Path, written: Path, now: float) -> list[str]:
    """Removes records beyond the limit, with the catalogs that no other needs. Returns warnings.

    The record that was just `written` stays, and so does one whose apply is at work. After a clock has gone back, the
    records of its future are the older ones: those nearest to now stay.
    """
    from llmgw.apply import history_catalogs  # noqa: PLC0415 - reading a catalog takes a while to import

    files = sorted(_files(directory), key=lambda path: _distance(path, now))
    limit = _limit()
    if len(files) <= limit:
        return []
    kept: list[Path] = []
    catalogs: set[Path | None] = set()
    good: set[str] = set()
    for path in files:
        try:
            record = _record(path)
        except LlmgwError:
            if len(kept) < limit:
                kept.append(path)
            continue
        digest = record.catalog.digest
        whole = record.outcome == DONE and not record.partly
        needed = whole and digest not in good and len(good) < NEEDED
        at_work = record.outcome == RUNNING and not is_gone(record.process, record.began, now)
        if len(kept) < limit or needed or at_work or path == written:
            kept.append(path)
            catalogs.add(history_catalogs.path_of(directory, digest))
            good |= {digest} if whole else set()
    stored = (directory / history_catalogs.FOLDER).glob("*.json")
    unneeded = [*(set(files) - set(kept)), *(path for path in stored if path not in catalogs)]
    return [said for path in sorted(unneeded) for said in _removed(path)]


def _removed(path: Path) -> list[str]:
    """Removes a file; the warning where that cannot be. What is no file is nobody's record."""
    try:
        if path.is_file() or path.is_symlink():
            path.unlink(missing_ok=True)
    except OSError as error:
        return [_unwritable(path, error)]
    return []


def _distance(path: Path, now: float) -> float:
    """Seconds between now and the time in a record's name."""
    try:
        began = datetime.strptime(path.name.partition("-")[0], _TIME).replace(tzinfo=UTC)
    except ValueError:  # no day that there is
        return _END_OF_TIME
    return abs(now - began.timestamp())


def _limit() -> int:
    text = os.environ.get(KEEP_VARIABLE, "")
    return int(text) if re.fullmatch("[0-9]{1,6}", text) and int(text) > 0 else KEPT


def _time(now: float) -> str:
    moment = datetime.fromtimestamp(now, UTC)
    return f"{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03d}Z"


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1) + "\n"


def _unwritable(path: Path, error: OSError) -> str:
    return str(
        LlmgwError("history-unwritable", f"the history cannot be kept: {_why(error)}", where=str(path), fix=_FIX_WRITE)
    )


def _why(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
