# SPDX-License-Identifier: Apache-2.0
"""Colour for lines that begin with a plan symbol; none where the output is no terminal or NO_COLOR is set."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TextIO

_COLOURS = {"+": "32", "~": "33", "^": "33", "=": "36", ">": "34", "-": "31", "!": "31;1", "@": "36"}


def coloured(lines: Iterable[str], stream: TextIO) -> list[str]:
    """The lines, coloured by their first character where the stream shows colour."""
    wanted = stream.isatty() and not os.environ.get("NO_COLOR")
    return [f"\033[{_COLOURS[line[0]]}m{line}\033[0m" if wanted and line[:1] in _COLOURS else line for line in lines]
