# SPDX-License-Identifier: Apache-2.0
"""Wheels made on the spot: with a program, with nothing but metadata, for any version, the same bytes every time."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path


def write_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    files: Mapping[str, str] | None = None,
    program: str | None = None,
    requires: Iterable[str] = (),
    python: str | None = None,
) -> Path:
    """Writes `NAME-VERSION-py3-none-any.whl` into the folder and returns its path.

    `files`: path in site-packages -> text; `program`: `command = module:function`; `requires` and `python`: what it
    says to need.
    """
    record = f"{name.replace('-', '_')}-{version}"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {one}" for one in requires] + ([f"Requires-Python: {python}"] if python else [])
    content = dict(files or {})
    content[f"{record}.dist-info/METADATA"] = "\n".join(metadata) + "\n"
    content[f"{record}.dist-info/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    if program:
        content[f"{record}.dist-info/entry_points.txt"] = f"[console_scripts]\n{program}\n"
    lines = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in content.items()]
    content[f"{record}.dist-info/RECORD"] = "\n".join([*lines, f"{record}.dist-info/RECORD,,"]) + "\n"
    path = folder / f"{record}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in content.items():
            archive.writestr(zipfile.ZipInfo(inside), text)
    return path


def sha256(path: Path) -> str:
    """The checksum of a file as pip writes it: `sha256:...`."""
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
