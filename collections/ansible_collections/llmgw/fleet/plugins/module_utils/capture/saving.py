# SPDX-License-Identifier: BSD-2-Clause
"""Writes a recording as one compressed archive that only its owner can read.

Private to llmgw. Where a file is named that is there already, it is replaced in one step.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
import tempfile
from typing import TYPE_CHECKING, Any, Dict, List

from ansible_collections.llmgw.fleet.plugins.module_utils.capture.names import Names

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.capture.recording import Answer, Call, Recording

INDEX = "capture.json"
FORMAT = "llmgw-capture"
FORMAT_VERSION = 1
_ABOUT = "What llmgw's discovery read on one machine. The facts in it: llmgw facts local --capture FILE"


def files_of(recording: Recording) -> Dict[str, bytes]:
    """The files of a capture by name, its index first."""
    names = Names()
    files: Dict[str, bytes] = {}
    calls: List[Dict[str, Any]] = []
    for call, answers in recording.calls.items():
        kept = [_entry(call, answer, time, names, files) for time, answer in enumerate(answers)]
        calls.append({"call": call.method, "of": list(call.of), "answers": kept})
    index = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "about": _ABOUT,
        "made_at": recording.made_at,
        "module_version": recording.module_version,
        "redacted": recording.redacted,
        "options": recording.options,
        "calls": calls,
    }
    return {INDEX: _a_call_a_line(index).encode("ascii"), **files}


def save(recording: Recording, path: str, folder: str) -> int:
    """Writes the archive, mode 0600, with everything in `folder` inside it; its size in bytes. Raises OSError."""
    handle, temporary = tempfile.mkstemp(prefix=".llmgw-", dir=os.path.dirname(path) or ".")
    try:
        with os.fdopen(handle, "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as archive:
                for name, content in files_of(recording).items():
                    entry = tarfile.TarInfo(f"{folder}/{name}")
                    entry.size, entry.mode, entry.mtime = len(content), 0o600, int(recording.made_at)
                    archive.addfile(entry, io.BytesIO(content))
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return size


def _a_call_a_line(index: Dict[str, Any]) -> str:
    calls = ",\n  ".join(map(json.dumps, index["calls"]))
    head = json.dumps({**index, "calls": []}, indent=1)
    return f"{head[: head.rindex('[]')]}[\n  {calls}\n ]\n}}\n"


def _entry(call: Call, answer: Answer, time: int, names: Names, files: Dict[str, bytes]) -> Dict[str, Any]:
    """An answer as the index has it: its values, and of its contents the names; the contents join `files`."""
    entry = dict(answer.fields)
    for content, value in answer.contents.items():
        name = names.name(call, content, time)
        files[name] = value
        entry[content] = name
    return entry
