# SPDX-License-Identifier: BSD-2-Clause
"""What llmgw remembers on a node beside the units (R11): records, last-good texts, the last plan that was applied.

Private to llmgw. All of it may be lost without harm: what runs is told by the units and their processes alone.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.llmgw.fleet.plugins.module_utils import applied, atomic
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import EngineMemory

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_READABLE = 0o644
_MOST_DIGITS = 18
_MEMORY_NUMBERS = ("weights_mib", "kv_cache_mib", "kv_cache_tokens", "graphs_mib")
_TEXTS = ("process_digest", "health_path", "models_path", "expect_model", "leader_address")


class Record(NamedTuple):
    """What was known of a unit when it last became ready: who brought it, as what, how to ask it again, when that was
    (Unix seconds), and what its engine's log said of memory, which later facts cannot read from a log that is gone.
    A member that does not lead was ready with a leader, at that address.
    """

    generation: int | None = None
    process_digest: str | None = None
    health_path: str | None = None
    models_path: str | None = None
    expect_model: str | None = None
    ready_at: float | None = None
    memory: EngineMemory | None = None
    leader_address: str | None = None
    leader_port: int | None = None


class StateFiles:
    """The files of one state directory. What is missing or broken reads as unknown; writes raise OSError."""

    def __init__(self, host: Host, state_dir: str) -> None:
        self._host = host
        self.directory = state_dir
        self.lock = f"{state_dir}/lock"
        self._generation = f"{state_dir}/generation"
        self._applied = f"{state_dir}/applied.json"

    def prepare(self) -> None:
        """Makes the directories, readable by all: nothing secret lies here."""
        for path in (self.directory, f"{self.directory}/units", f"{self.directory}/last-good"):
            make_directory(path)

    def applied(self) -> applied.Applied:
        """The plan of the highest generation that was ever applied here.

        Two files tell it: `applied.json` all of it, `generation` that number alone, for versions of llmgw that know
        no other. The higher number counts, so that neither a state directory of such a version nor a run that was
        killed between the two can lower it.
        """
        noted = applied.parse(self._text(self._applied))
        alone = _number(self._text(self._generation))
        if noted.generation is None or (alone is not None and alone > noted.generation):
            return applied.Applied(alone)
        return noted

    def generation(self) -> int | None:
        """The highest generation that was ever applied here."""
        return self.applied().generation

    def note_applied(self, generation: int, plan_id: str | None = None, by: str | None = None) -> None:
        """Claims a generation for a plan, unless it is claimed or a higher one was here. Raises OSError.

        Who it is comes first: killed before the number, a run has claimed it all the same.
        """
        if applied.newer(self.applied(), generation, plan_id):
            claim = applied.Applied(generation, plan_id, by, round(self._host.clock(), 1))
            atomic.write(self._applied, applied.note(claim), _READABLE)
        if generation > (_number(self._text(self._generation)) or -1):
            atomic.write(self._generation, f"{generation}\n".encode("ascii"), _READABLE)

    def record(self, name: str) -> Record:
        """The record of a unit; empty when there is none."""
        try:
            said = json.loads(self._text(self._record_path(name)) or "{}")
        except (ValueError, RecursionError):  # any bytes may lie there, deeply nested ones too
            return Record()
        if not isinstance(said, dict):
            return Record()
        return Record(
            generation=_whole(said.get("generation")),
            ready_at=_moment(said.get("ready_at")),
            memory=_memory(said.get("memory")),
            leader_port=_whole(said.get("leader_port")),
            **{field: said[field] for field in _TEXTS if isinstance(said.get(field), str)},
        )

    def write_record(self, name: str, record: Record) -> None:
        """Replaces a unit's record, if it differs."""
        if self.record(name) != record:
            memory = None if record.memory is None else dataclasses.asdict(record.memory)
            text = json.dumps({**record._asdict(), "memory": memory}, sort_keys=True) + "\n"
            atomic.write(self._record_path(name), text.encode("utf-8"), _READABLE)

    def last_good(self, file_name: str) -> str | None:
        """Text of a unit, or of a file beside it, when the unit was last ready."""
        return self._text(f"{self.directory}/last-good/{file_name}")

    def write_last_good(self, file_name: str, text: str) -> None:
        """Replaces a last-good text, if it differs."""
        if self.last_good(file_name) != text:
            path = f"{self.directory}/last-good/{file_name}"
            atomic.write(path, text.encode("utf-8", "surrogateescape"), _READABLE)

    def forget(self, name: str, file_names: tuple[str, ...]) -> None:
        """Removes all that is remembered of a unit and of the files beside it."""
        atomic.remove(self._record_path(name))
        for file_name in (name, *file_names):
            atomic.remove(f"{self.directory}/last-good/{file_name}")

    def _record_path(self, name: str) -> str:
        return f"{self.directory}/units/{name}.json"

    def _text(self, path: str) -> str | None:
        content = self._host.read(path)
        return None if content is None else content.decode("utf-8", "surrogateescape")


def make_directory(path: str | Path) -> None:
    """Makes a directory and those above it, for all to read whatever the umask: engines run as other users.

    What is there already stays as it is. Raises OSError.
    """
    missing = [one for one in (Path(path), *Path(path).parents) if not one.exists()]
    Path(path).mkdir(mode=0o755, parents=True, exist_ok=True)
    for one in missing:
        one.chmod(0o755)


def default_directory(scope: str, host: Host) -> str:
    """The state directory when none is named: /var/lib/llmgw, or below the user's ~/.local/state."""
    if scope == "system":
        return "/var/lib/llmgw"
    return f"{os.environ.get('XDG_STATE_HOME') or host.home() + '/.local/state'}/llmgw"


def _whole(said: Any) -> int | None:
    return said if isinstance(said, int) and not isinstance(said, bool) and abs(said) < 10**_MOST_DIGITS else None


def _moment(said: Any) -> float | None:
    return float(said) if isinstance(said, (int, float)) and 0 < said < 10**_MOST_DIGITS else None


def _memory(said: Any) -> EngineMemory | None:
    """A memory report as it was written; what does not fit is unknown."""
    if not isinstance(said, dict):
        return None
    numbers = {name: _whole(said.get(name)) for name in _MEMORY_NUMBERS}
    source = said.get("source")
    report = EngineMemory(source=source if isinstance(source, str) else None, **numbers)
    return None if report == EngineMemory() else report


def _number(text: str | None) -> int | None:
    stripped = (text or "").strip()
    return int(stripped) if stripped.isascii() and stripped.isdigit() and len(stripped) <= _MOST_DIGITS else None
