# SPDX-License-Identifier: BSD-2-Clause
"""Reads a capture: a directory or an archive, whoever made or damaged it.

Private to llmgw. What is named in the index is looked for inside the capture alone, and sizes are bounded.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import tarfile
import zlib
from typing import Any, Dict, Mapping, Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils.capture.answers import CONTENTS, SHAPES
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.errors import CaptureError
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.recording import Answer, Call, Recording
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.saving import FORMAT, FORMAT_VERSION, INDEX

_ARCHIVE = ".tar.gz"
_NAMED = 5
_MOST_FILES = 200_000
_MOST_BYTES = 512 * 1024 * 1024
_TOO_MUCH = "it holds more than any capture that llmgw makes"
_AGAIN = "make the capture again: llmgw capture"
_NEWER = "read it with the llmgw that made it, or a newer one"
_PATH = "name the .tar.gz that llmgw capture wrote, or the directory that was unpacked from it"


def load(path: str) -> Recording:
    """The recording in a capture. Raises CaptureError."""
    try:
        kind = os.stat(path).st_mode
        if not stat.S_ISDIR(kind) and not stat.S_ISREG(kind):
            raise CaptureError(path, "it is neither a file nor a directory", _PATH)
        if stat.S_ISDIR(kind):
            files = _Directory(path)
            _refuse_several(path, files)
            return _recording(path, files)
        return _recording(path, _archive(path))
    except OSError as error:
        why = f"it cannot be read: {(error.strerror or str(error) or type(error).__name__).lower()}"
        raise CaptureError(path, why, _PATH) from error


def _refuse_several(path: str, files: Mapping[str, bytes]) -> None:
    """Raises CaptureError for the directory into which llmgw capture wrote the captures of several hosts."""
    archives = sorted(name for name in os.listdir(path) if name.endswith(_ARCHIVE))
    try:
        is_capture = bool(files[INDEX])
    except KeyError:
        is_capture = False
    if archives and not is_capture:
        more = f" and {len(archives) - _NAMED} more" if len(archives) > _NAMED else ""
        why = f"this directory is no capture, but holds {len(archives)}: {', '.join(archives[:_NAMED])}{more}"
        raise CaptureError(path, why, f"name one of them: {os.path.join(path, archives[0])}")


class _Directory(Dict[str, bytes]):
    """Files below a directory by their names, read when they are asked for; links that leave it are not followed."""

    def __init__(self, path: str) -> None:
        super().__init__()
        inside = [path, *(os.path.join(path, name) for name in sorted(os.listdir(path))[:2])]
        found = [one for one in inside if os.path.isfile(os.path.join(one, INDEX))]
        self._root = os.path.realpath(found[0] if found else path)
        self._left = _MOST_BYTES

    def __missing__(self, name: str) -> bytes:
        real = os.path.realpath(os.path.join(self._root, name))
        if not real.startswith(f"{self._root}{os.sep}"):
            raise KeyError(name)
        try:
            handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            raise KeyError(name) from None
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise KeyError(name)
            if status.st_size > self._left:
                raise CaptureError(self._root, _TOO_MUCH, _AGAIN)
            self._left -= status.st_size
            with open(handle, "rb", closefd=False) as file:
                self[name] = file.read(status.st_size)
        finally:
            os.close(handle)
        return self[name]


class _Bounded(io.RawIOBase):
    """What an archive unpacks to, with an end to it."""

    def __init__(self, file: gzip.GzipFile, path: str) -> None:
        self._file = file
        self._path = path
        self._left = _MOST_BYTES

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; raises CaptureError when there are too many in all."""
        data = self._file.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise CaptureError(self._path, _TOO_MUCH, _AGAIN)
        return data


def _archive(path: str) -> Dict[str, bytes]:
    """The regular files of an archive by their names below the folder that holds the index."""
    found: Dict[str, bytes] = {}
    try:
        with gzip.open(path) as packed, tarfile.open(fileobj=_Bounded(packed, path), mode="r|") as archive:
            for number, entry in enumerate(archive):
                if number > _MOST_FILES or entry.size > _MOST_BYTES:
                    raise CaptureError(path, _TOO_MUCH, _AGAIN)
                file = archive.extractfile(entry) if entry.isreg() else None
                if file is not None:
                    found[entry.name[2:] if entry.name.startswith("./") else entry.name] = file.read()
    except (
        tarfile.TarError,
        EOFError,
        zlib.error,
        gzip.BadGzipFile,
        ArithmeticError,
        LookupError,
        ValueError,
    ) as error:
        raise CaptureError(path, f"it is no whole .tar.gz archive: {error}", _PATH) from error
    indexes = sorted((name for name in found if name.split("/")[-1] == INDEX), key=lambda name: name.count("/"))
    folder = indexes[0][: -len(INDEX)] if indexes else ""
    return {name[len(folder) :]: content for name, content in found.items() if name.startswith(folder)}


def _recording(path: str, files: Mapping[str, bytes]) -> Recording:
    index = _index(path, files)
    calls: Dict[Call, Tuple[Answer, ...]] = {}
    entries = index.get("calls")
    for number, entry in enumerate(entries if isinstance(entries, list) else [None]):
        try:
            call, answers = _call(entry, files)
        except KeyError as error:
            raise CaptureError(f"{path}: {INDEX}", f"call {number} has no {error}", _AGAIN) from None
        except (ValueError, TypeError, AttributeError) as error:
            why = f"call {number} is not as llmgw writes it: {error}"
            raise CaptureError(f"{path}: {INDEX}", why, _AGAIN) from None
        calls[call] = answers
    made_at, version, options = index.get("made_at"), index.get("module_version"), index.get("options")
    return Recording(
        options=options if isinstance(options, dict) else {},
        made_at=float(made_at) if isinstance(made_at, (int, float)) else 0.0,
        module_version=version if isinstance(version, str) else None,
        calls=calls,
        redacted=index.get("redacted") is True,
    )


def _index(path: str, files: Mapping[str, bytes]) -> Dict[str, Any]:
    """The index, once it is known to be one that this version reads."""
    try:
        text = files[INDEX]
    except KeyError:
        raise CaptureError(path, f"this is no capture: there is no {INDEX} in it", _PATH) from None
    try:
        index = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"{path}: {INDEX}", f"it is not whole JSON: {error}", _AGAIN) from None
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise CaptureError(f"{path}: {INDEX}", "it is not the index of a capture", _PATH)
    version = index.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise CaptureError(f"{path}: {INDEX}", f"it has format version {version}, unknown to this llmgw", _NEWER)
    return index


def _call(entry: Any, files: Mapping[str, bytes]) -> Tuple[Call, Tuple[Answer, ...]]:
    """A call with its answers. Raises KeyError for a key that it lacks; ValueError and others for what is no call."""
    method, of, answers = entry["call"], entry["of"], entry["answers"]
    if method not in SHAPES:
        return Call(str(method), ()), ()  # of a newer llmgw: nobody here asks for it
    if not isinstance(of, list) or not all(isinstance(word, (str, int)) for word in of):
        raise ValueError("words were expected")
    return Call(method, tuple(of)), tuple(_answer(method, answer, files) for answer in answers)


def _answer(method: str, entry: Any, files: Mapping[str, bytes]) -> Answer:
    fields = {name: value for name, value in entry.items() if name not in CONTENTS}
    contents = {}
    for name in CONTENTS:
        if name in entry:
            try:
                contents[name] = files[entry[name]]
            except KeyError:
                raise ValueError(f"the file {entry[name]} is not in the capture") from None
    answer = Answer(fields, contents)
    if "unanswered" not in answer.fields and "left_out" not in answer.fields:
        SHAPES[method].restore(answer)
    return answer
