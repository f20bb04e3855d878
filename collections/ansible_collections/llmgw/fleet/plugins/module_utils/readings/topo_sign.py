# SPDX-License-Identifier: BSD-2-Clause
"""Tells the matrix of `nvidia-smi topo -m` from texts of other kinds, some of which speak of the same things.

Private to llmgw and pure.
"""

from __future__ import annotations

import re

_ROW = re.compile(
    r"[^\S\n]*(?:(?:GPU|NIC)[0-9]{1,4}[^\S\n]+(?:X|SYS|NODE|PHB|PXB|PIX|NV[0-9]{1,3})(?:[^\S\n].*)?"
    r"|X[^\S\n]+=[^\S\n]+Self|NV#[^\S\n]+=.*)",
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def is_matrix(text: str) -> bool:
    """Whether a line of the text is a row of the matrix or of its legend."""
    return any(map(_ROW.fullmatch, _COLOUR.sub("", text).splitlines()))
