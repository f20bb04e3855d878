# SPDX-License-Identifier: Apache-2.0
"""Who works with this controller: what hosts and the history note beside everything that is applied (R9)."""

from __future__ import annotations

import getpass
import os
import socket

VARIABLE = "LLMGW_BY"
LONGEST = 120


def whoami() -> str:
    """`user@host` of this controller, or what the environment variable LLMGW_BY says.

    It is one line of at most 120 characters, and never raises: a user or a host without a name is called `unknown`.
    """
    said = _clean(os.environ.get(VARIABLE, ""))
    return said or _clean(f"{_user()}@{_host()}")


def _user() -> str:
    try:
        return _clean(getpass.getuser()) or "unknown"
    except (OSError, KeyError, ImportError):  # a user id without a name
        return "unknown"


def _host() -> str:
    try:
        return _clean(socket.gethostname()) or "unknown"
    except OSError:
        return "unknown"


def _clean(text: str) -> str:
    """The text without what a terminal would take for a command or a log for another line."""
    return "".join(filter(str.isprintable, text)).strip()[:LONGEST]
