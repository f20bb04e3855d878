# SPDX-License-Identifier: BSD-2-Clause
"""What a hub says that a repository holds, as far as it can be believed (D12). Private to llmgw and pure.

Names, commits and contents become paths of a cache that is often written as root, and a hub may be anybody's.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils.fetching.child import BLOB, COMMIT, OddAnswer

_MOST_BYTES = 2**60
_SHOWN = 80
_CONTROL = frozenset({"Cc", "Cs"})


@dataclass(frozen=True)
class HubFile:
    """A file of the repository as the hub has it: bytes, and the name of its blob."""

    name: str
    size: Optional[int]
    blob: Optional[str]


@dataclass(frozen=True)
class Listing:
    """A commit and its files. `left_out`: files whose names no cache should hold, and no engine asks for."""

    commit: str
    files: Tuple[HubFile, ...]
    left_out: int = 0

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Listing:
        """What the child tells of a hub's answer. Raises OddAnswer."""
        commit, files = said.get("commit"), said.get("files")
        if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
            raise OddAnswer(f"it gives {_shown(commit)} as the commit")
        if not isinstance(files, list) or not all(isinstance(one, dict) for one in files):
            raise OddAnswer("it lists no files")
        known = [_file(one) for one in files]
        fit = tuple(one for one in known if not any(unicodedata.category(sign) in _CONTROL for sign in one.name))
        return cls(commit, fit, len(known) - len(fit))


def _file(about: Mapping[str, Any]) -> HubFile:
    """One file. A name of a blob that is none counts as unknown: then the library has to find it out."""
    name, size, blob = about.get("name"), about.get("size"), about.get("blob")
    if not isinstance(name, str) or any(part in ("", ".", "..") for part in name.split("/")):
        raise OddAnswer(f"it lists a file by the name {_shown(name)}, which is no name below the repository")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < _MOST_BYTES):
        raise OddAnswer(f"it gives {_shown(size)} as the size of {_shown(name)}")
    return HubFile(name, size, blob if isinstance(blob, str) and BLOB.fullmatch(blob) else None)


def _shown(value: Any) -> str:
    return repr(value)[:_SHOWN]
