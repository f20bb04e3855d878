# SPDX-License-Identifier: Apache-2.0
"""The catalogs of past applies: the files of each as they were, once a digest, so that they can be applied again.

The files are kept rather than what they mean: comments, the split over `catalog.d/` and the overlay come back as they
were written, and messages name their lines.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from llmgw.catalog.compile import File, compile_catalog
from llmgw.catalog.load import load
from llmgw.errors import LlmgwError
from llmgw.fleet.store import write_atomically

CATALOG_FORMAT = 1
FOLDER = "catalogs"
MAIN = "main"
_DIGEST = re.compile("(?:sha256:)?([0-9a-f]{8,128})")
_MOST_BYTES = 256 * 1024 * 1024
"""Of all files unpacked: more is no catalog but a mistake or an attack."""
_BROKEN = "the kept catalog is cut off or broken"
_FIX = "roll back by git instead: `git revert` the change of the catalog, then `llmgw apply`"


def keep(directory: Path, catalog: Path, digest: str) -> list[str]:
    """Keeps the files of the catalog at that path, unless a catalog of this digest is there and whole. Returns
    warnings, of which one says that the files are not any more those that were planned with.
    """
    path = path_of(directory, digest)
    if path is None:
        return []
    try:
        if not path.is_file() or _is_broken(path):
            text = _text(catalog, digest)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, text)
    except OSError as error:
        why = f"the catalog of this apply cannot be kept: {(error.strerror or type(error).__name__).lower()}"
        fix = "let the user who runs Ansible write there; the apply itself goes on"
        return [str(LlmgwError("history-unwritable", why, where=str(path), fix=fix))]
    except LlmgwError as error:
        return [f"The catalog of this apply is not kept, and there will be no rolling back to it. {error}"]
    return []


def _text(catalog: Path, digest: str) -> str:
    """The document of a catalog. Raises LlmgwError `history-catalog` when it is not of that digest."""
    files, main = _files(catalog)
    if compile_catalog(*files).catalog.digest != digest:
        raise LlmgwError("history-catalog", "it was changed while it was being applied", where=str(catalog))
    texts = {_relative(file, main): _packed(file.content) for part in files for file in part}
    document = {"format_version": CATALOG_FORMAT, "digest": digest, MAIN: main.name, "files": texts}
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def copy_of(catalog: Path, digest: str, target: Path) -> Path:
    """Writes the files of the catalog of that digest below `target`; returns the path of its main file.

    Raises LlmgwError `history-catalog` when the catalog is another one by now.
    """
    files, main = _files(catalog)
    if compile_catalog(*files).catalog.digest != digest:
        raise LlmgwError("history-catalog", "it was changed while it was being planned with", where=str(catalog))
    for one in (file for part in files for file in part):
        place = target / _relative(one, main)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.write_bytes(one.content)
    return target / main.name


def path_of(directory: Path, digest: str) -> Path | None:
    """Where the catalog of that digest is kept, whether or not it is there; None for what is no digest."""
    found = _DIGEST.fullmatch(digest)
    return directory / FOLDER / f"{found[1]}.json" if found else None


def is_kept(directory: Path, digest: str) -> bool:
    """Whether the catalog of that digest is there."""
    path = path_of(directory, digest)
    try:
        return path is not None and path.is_file()
    except OSError:
        return False


def unpack(directory: Path, digest: str, target: Path) -> Path:
    """Writes the files of a kept catalog below `target`, an empty directory. Returns the path of its main file.

    Raises LlmgwError `history-catalog` when it is not kept or broken; OSError when `target` cannot be written.
    """
    path = path_of(directory, digest)
    if path is None or not is_kept(directory, digest):
        why = "the catalog of that apply is not kept"
        raise LlmgwError("history-catalog", why, where=str(path or directory), fix=_FIX)
    files, main = _read(path)
    for name, content in sorted(files.items()):
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return target / main


def _files(catalog: Path) -> tuple[tuple[list[File], list[File]], Path]:
    """The catalog's files read anew, the parts and the overlays; and its main file."""
    names = load(catalog).files
    main = Path(names[0])
    overlay = str(main.with_suffix(".overlay.yaml"))
    read = [File(name, Path(name).read_bytes()) for name in names]
    return ([one for one in read if one.path != overlay], [one for one in read if one.path == overlay]), main


def _relative(file: File, main: Path) -> str:
    """The name below the directory of the main file: parts and overlay are beside it."""
    return Path(file.path).relative_to(main.parent).as_posix()


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, mtime=0)).decode("ascii")


def _is_broken(path: Path) -> bool:
    """Whether the file holds nothing that could be applied; one of a newer llmgw does."""
    try:
        _read(path)
    except LlmgwError as error:
        return error.why == _BROKEN
    return False


def _read(path: Path) -> tuple[dict[str, bytes], str]:
    """The files by name, and the name of the main one."""
    try:
        document: Any = json.loads(path.read_bytes())
        version, main = document["format_version"], str(document[MAIN])
        newer = isinstance(version, int) and version > CATALOG_FORMAT
        files = {} if newer else _unpacked(document["files"])
    except OSError as error:
        why = f"the kept catalog cannot be read: {(error.strerror or type(error).__name__).lower()}"
        raise LlmgwError("history-catalog", why, where=str(path), fix="let this user read the file") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LlmgwError("history-catalog", _BROKEN, where=str(path), fix=_FIX) from error
    if newer:
        why = f"the kept catalog was written by a newer llmgw (format {version}; this one reads {CATALOG_FORMAT})"
        raise LlmgwError("history-catalog", why, where=str(path), fix="roll back with that llmgw")
    if main not in files:
        raise LlmgwError("history-catalog", _BROKEN, where=str(path), fix=_FIX)
    return files, main


def _unpacked(texts: Mapping[str, str]) -> dict[str, bytes]:
    """Raises ValueError for a name that leads out of the directory or that no file can have, and for contents without
    end.
    """
    files: dict[str, bytes] = {}
    left = _MOST_BYTES
    for name, text in texts.items():
        place = PurePosixPath(name)
        if place.is_absolute() or not place.parts or ".." in place.parts or b"\0" in name.encode():
            raise ValueError(name)
        files[name] = _inflated(base64.b64decode(text, validate=True), left)
        left -= len(files[name])
    return files


def _inflated(packed: bytes, most: int) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            content = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(packed[:10]) from error
    if len(content) > most:
        raise ValueError(most)
    return content
