# SPDX-License-Identifier: BSD-2-Clause
"""Where the contents of a capture lie in its directory: names that a reader finds without an index.

Private to llmgw and pure. A name cannot leave the directory, whatever a machine calls its files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.capture.recording import Call

_FOLDERS = {"run": "commands", "python": "programs", "fetch": "http", "read": "files", "extract": "extracts"}
_ENDINGS = {"stdout": ".txt", "stderr": ".stderr.txt", "body": ".txt", "content": ""}
_LONGEST_PART = 100
_MOST_PARTS = 24


class Names:
    """Gives every content a name of its own, also where upper and lower case are one."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def name(self, call: Call, content: str, time: int) -> str:
        """The name of one content of the `time`-th answer (from 0) to a call: `commands/nvidia-smi_-q_-x.txt`."""
        words = [str(word) for word in call.of if isinstance(word, str)]
        if call.method in {"read", "extract"}:
            path = ".".join(words)
            parts = [part(one) for one in path.split("/") if one][:_MOST_PARTS] or ["_"]
        else:
            parts = [part("_".join(words).replace("://", "_"))]
        again = f".{time + 1}" if time else ""
        rest = f"{'/'.join(parts)}{again}{_ENDINGS[content]}"
        number = 1
        while True:
            # Another top folder: what is a file in the one may be a folder in the other.
            name = f"{_FOLDERS[call.method]}{'' if number == 1 else f'~{number}'}/{rest}"
            if self._is_free(name.lower()):
                return name
            number += 1

    def _is_free(self, name: str) -> bool:
        """Whether no file has the name yet and no file would have to be a folder; takes it if so."""
        folders = [name[:end] for end, letter in enumerate(name) if letter == "/"]
        if name in self._files or name in self._folders or not self._files.isdisjoint(folders):
            return False
        self._files.add(name)
        self._folders.update(folders)
        return True


def part(text: str) -> str:
    """The text as one part of a path: never empty, `.` or `..`, nor hidden, and short enough for every filesystem."""
    plain = re.sub(r"[^A-Za-z0-9._+=@,:-]+", "_", text)[:_LONGEST_PART].rstrip(".")
    return f"_{plain}" if plain[:1] in {"", ".", "~"} else plain
