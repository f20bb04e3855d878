# SPDX-License-Identifier: Apache-2.0
"""The options and variables that the engines' own parsers know, stored for tests that have no engine at hand.

`make test-engines ARGS=--update-golden` writes the files from the real parsers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "fixtures" / "engine-options"
_DEPRECATED = " deprecated"


@dataclass(frozen=True, slots=True)
class Known:
    """What one engine knows. `options`: option -> whether it is deprecated; `variables`: empty where it has no list."""

    version: str
    options: dict[str, bool]
    variables: frozenset[str]


def stored(engine: str) -> Known:
    """What is stored of an engine."""
    first, *lines = (FOLDER / f"{engine}.txt").read_text(encoding="utf-8").splitlines()
    options = {one.removesuffix(_DEPRECATED): one.endswith(_DEPRECATED) for one in lines if one.startswith("-")}
    return Known(first, options, frozenset(one for one in lines if one and not one.startswith("-")))


def text(version: str, options: Mapping[str, bool], variables: Iterable[str] = ()) -> str:
    """What is stored of an engine that says this."""
    lines = [version, *(f"{one}{_DEPRECATED if old else ''}" for one, old in sorted(options.items()))]
    return "\n".join((*lines, *sorted(variables), ""))


def of_llama_cpp(library: Path) -> dict[str, bool]:
    """The options that llama.cpp's library holds the names of: its parser is compiled, and nothing lists them."""
    found = re.findall(rb"\0(-{1,2}[a-z][a-z0-9-]*)(?=\0)", library.read_bytes())
    return dict.fromkeys((one.decode() for one in found), False)
