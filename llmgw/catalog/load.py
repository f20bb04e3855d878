# SPDX-License-Identifier: Apache-2.0
"""Reads a catalog from disk: which files belong to it, and their bytes. The only module of this layer with I/O.

To `catalog.yaml` belong every `*.yaml` and `*.yml` below `catalog.d/`, and the overlay `catalog.overlay.yaml` (C7).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from llmgw.catalog import codes
from llmgw.catalog.compile import Compiled, File, compile_catalog
from llmgw.errors import LlmgwError, LlmgwErrors
from llmgw.model.replica import Catalog

FILE_NAME = "catalog.yaml"
MAX_BYTES = 8 * 1024 * 1024
"""Of one file: a catalog of thousands of services is a tenth of it."""

_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Sources:
    """The files of a catalog as they lie on disk: those that are united, the main one first, and those over them."""

    files: tuple[File, ...]
    overlays: tuple[File, ...] = ()


def load_catalog(path: Path, overlays: Sequence[Path] = ()) -> Catalog:
    """The catalog of a fleet directory or of a file, with further overlays on top of its own.

    Raises LlmgwErrors with everything that is wrong.
    """
    return load(path, overlays).catalog


def load(path: Path, overlays: Sequence[Path] = ()) -> Compiled:
    """The same together with its source and its files. Raises as `load_catalog` does."""
    sources = read(path, overlays)
    return compile_catalog(sources.files, sources.overlays)


def read(path: Path, overlays: Sequence[Path] = ()) -> Sources:
    """The files of a fleet directory or of a main file, unparsed. Raises LlmgwErrors with all that cannot be read."""
    errors: list[LlmgwError] = []
    main = _main(path)
    own = main.with_suffix(".overlay.yaml")
    files = _read([main, *_parts(main.with_suffix(".d"), errors)], errors)
    above = _read([own, *overlays] if os.path.lexists(own) else overlays, errors)
    if errors:
        raise LlmgwErrors(errors)
    return Sources(tuple(files), tuple(above))


def _main(path: Path) -> Path:
    if not path.is_dir():
        return path
    main, other = path / FILE_NAME, path / "catalog.yml"
    if not main.exists() and other.exists():
        why = f"a fleet directory keeps its catalog in {FILE_NAME}"
        raise LlmgwErrors([LlmgwError(codes.FILE, why, where=str(other), fix=f"Rename it to {FILE_NAME}.")])
    return main


def _parts(folder: Path, errors: list[LlmgwError]) -> list[Path]:
    if not os.path.lexists(folder):
        return []
    parts: list[Path] = []
    seen: set[str] = set()

    def failed(error: OSError) -> None:
        errors.append(_unreadable(Path(error.filename or folder), error))

    for inner, folders, names in os.walk(folder, onerror=failed, followlinks=True):
        # A link may lead back to a folder above it.
        seen.add(os.path.realpath(inner))
        folders[:] = [
            name for name in folders if not name.startswith(".") and os.path.realpath(Path(inner, name)) not in seen
        ]
        parts += [Path(inner, name) for name in names if name.endswith(_SUFFIXES) and not name.startswith(".")]
    return sorted(parts)


def _read(paths: Sequence[Path], errors: list[LlmgwError]) -> list[File]:
    files = []
    for path in paths:
        try:
            files.append(File(str(path), _content(path)))
        except OSError as error:
            errors.append(_unreadable(path, error))
        except LlmgwError as error:
            errors.append(error)
    return files


def _content(path: Path) -> bytes:
    # Opening a pipe or a device could wait for ever.
    if not stat.S_ISREG(path.stat().st_mode):
        fix = "Name a YAML file or a fleet directory."
        raise LlmgwError(codes.FILE, "this is no regular file", where=str(path), fix=fix)
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        why = f"the file is larger than {MAX_BYTES // 2**20} MiB: this is hardly a catalog"
        raise LlmgwError(codes.FILE, why, where=str(path), fix="Name another file, or split it over catalog.d.")
    return content


def _unreadable(path: Path, error: OSError) -> LlmgwError:
    if isinstance(error, FileNotFoundError):
        fix = "Name a fleet directory or a catalog file; `llmgw init` writes a first one."
        return LlmgwError(codes.FILE, "there is no such file", where=str(path), fix=fix)
    reason = (error.strerror or type(error).__name__).lower()
    return LlmgwError(codes.FILE, f"the file cannot be read: {reason}", where=str(path), fix="Mend its permissions.")
