# SPDX-License-Identifier: BSD-2-Clause
"""Names of files as text that can be written into facts. Private to llmgw and pure."""

from __future__ import annotations


def printable(name: str) -> str:
    """The name, with a mark in place of what is no UTF-8: files have such names, and JSON may tell of some that no file
    can have, but text that is written to a file cannot hold them.
    """
    try:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # halves of characters that stand for no byte
        return name.encode("utf-8", "replace").decode("utf-8")
