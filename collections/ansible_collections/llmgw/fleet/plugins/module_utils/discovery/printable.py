# SPDX-License-Identifier: BSD-2-Clause
"""Names of files as text that can be written into facts. Private to llmgw and pure."""

from __future__ import annotations


def printable(name: str) -> str:
    """The name, with a mark in place of bytes that are no UTF-8: files have such names, JSON documents cannot."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
