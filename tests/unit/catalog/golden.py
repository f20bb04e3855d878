# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the files in `errors/`: catalogs with mistakes, and what the user is told about each.

A case is `=== title`, then `--- path` and the content of each file (`--- overlay path` for an overlay), then `+++` and
the errors. `python tests/unit/catalog/golden.py` writes anew what users are told.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from llmgw.catalog.compile import File, compile_catalog
from llmgw.errors import LlmgwErrors

FOLDER = Path(__file__).parent / "errors"
_OVERLAY = "overlay "


@dataclass(frozen=True, slots=True)
class Case:
    """One catalog and the text of its errors."""

    title: str
    files: tuple[File, ...]
    overlays: tuple[File, ...]
    expected: str

    def told(self) -> str:
        """What a user is told about the catalog now."""
        try:
            compile_catalog(self.files, self.overlays)
        except LlmgwErrors as errors:
            return f"{errors}\n"
        return "nothing\n"


def read(path: Path) -> list[Case]:
    """The cases of one file."""
    return [_case(block) for block in path.read_text(encoding="utf-8").split("=== ")[1:]]


def written(cases: list[Case]) -> str:
    """The text of a file with what users are told now."""
    return "\n".join(_block(case) for case in cases)


def _case(block: str) -> Case:
    body, _, expected = block.partition("+++\n")
    title, *parts = body.split("\n--- ")
    named = [part.partition("\n")[::2] for part in parts]
    files = [(name, File(name.removeprefix(_OVERLAY), f"{content.rstrip()}\n".encode())) for name, content in named]
    return Case(
        title.strip(),
        tuple(file for name, file in files if not name.startswith(_OVERLAY)),
        tuple(file for name, file in files if name.startswith(_OVERLAY)),
        f"{expected.rstrip()}\n",
    )


def _block(case: Case) -> str:
    files = [(file.path, file) for file in case.files] + [(_OVERLAY + file.path, file) for file in case.overlays]
    contents = "".join(f"--- {name}\n{file.content.decode()}" for name, file in files)
    return f"=== {case.title}\n{contents}+++\n{case.told()}"


if __name__ == "__main__":
    for path in FOLDER.glob("*.txt"):
        path.write_text(written(read(path)), encoding="utf-8")
