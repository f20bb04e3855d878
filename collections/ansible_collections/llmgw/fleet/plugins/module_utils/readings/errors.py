# SPDX-License-Identifier: BSD-2-Clause
"""The one error that reading a text may end in."""

from __future__ import annotations


class Unreadable(Exception):  # noqa: N818 - what the text is, not what went wrong in the reader
    """The text is not what its kind prints: a sentence that says what was looked for and not found."""
