# SPDX-License-Identifier: BSD-2-Clause
"""What llmgw remembers on a node beside the units (R11): records, last-good texts, the highest generation.

Private to llmgw. All of it may be lost without harm: what runs is told by the units and their processes alone.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.llmgw.fleet.plugins.module_utils import atomic

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_READABLE = 0o644
_MOST_DIGITS = 18


class Record(NamedTuple):
    """What was known of a unit when it last became ready: who brought it, as what, and how to ask it again."""

    generation: int | None = None
    process_digest: str | None = None
    health_path: str | None = None
    models_path: str | None = None
    expect_model: str | None = None


class StateFiles:
    """The files of one state directory. What is missing or broken reads as unknown; writes raise OSError."""

    def __init__(self, host: Host, state_dir: str) -> None:
        self._host = host
        self.directory = state_dir
        self.lock = f"{state_dir}/lock"
        self._generation = f"{state_dir}/generation"

    def prepare(self) -> None:
        """Makes the directories, readable by all: nothing secret lies here."""
        for path in (self.directory, f"{self.directory}/units", f"{self.directory}/last-good"):
            Path(path).mkdir(mode=0o755, parents=True, exist_ok=True)

    def generation(self) -> int | None:
        """The highest generation that was ever applied here."""
        return _number(self._text(self._generation))

    def raise_generation(self, generation: int) -> None:
        """Notes a generation, if it is higher than what is noted."""
        if generation > (self.generation() or 0):
            atomic.write(self._generation, f"{generation}\n".encode("ascii"), _READABLE)

    def record(self, name: str) -> Record:
        """The record of a unit; empty when there is none."""
        try:
            said = json.loads(self._text(self._record_path(name)) or "{}")
        except ValueError:
            return Record()
        if not isinstance(said, dict):
            return Record()
        values = {field: said[field] for field in Record._fields if isinstance(said.get(field), (int, str))}
        if not isinstance(values.get("generation", 0), int):
            del values["generation"]
        return Record(**values)

    def write_record(self, name: str, record: Record) -> None:
        """Replaces a unit's record, if it differs."""
        if self.record(name) != record:
            text = json.dumps(record._asdict(), sort_keys=True) + "\n"
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


def default_directory(scope: str, host: Host) -> str:
    """The state directory when none is named: /var/lib/llmgw, or below the user's ~/.local/state."""
    if scope == "system":
        return "/var/lib/llmgw"
    return f"{os.environ.get('XDG_STATE_HOME') or host.home() + '/.local/state'}/llmgw"


def _number(text: str | None) -> int | None:
    stripped = (text or "").strip()
    return int(stripped) if stripped.isascii() and stripped.isdigit() and len(stripped) <= _MOST_DIGITS else None
