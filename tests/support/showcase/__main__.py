# SPDX-License-Identifier: Apache-2.0
"""Writes the facts of inventory/showcase anew: `python -m tests.support.showcase`."""

from __future__ import annotations

from tests.support.showcase.files import FOLDER, facts_files

if __name__ == "__main__":
    folder = FOLDER / "facts"
    folder.mkdir(exist_ok=True)
    files = facts_files()
    for path in folder.iterdir():
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
