# SPDX-License-Identifier: Apache-2.0
"""Why a host did not do what it was asked to, in one sentence, with what to set where that is known.

Plugins ask for it in processes of their own, so that this file imports nothing that takes time. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_REFUSED_LOGIN = re.compile(r"Permission denied \([a-z,-]+\)|Too many authentication failures", re.IGNORECASE)
_NO_PASSWORD = re.compile(r"Missing sudo password|a password is required|Incorrect sudo password", re.IGNORECASE)
_MAY_NOT = re.compile(
    r"Permission denied|Interactive authentication required|Access denied|Operation not permitted", re.IGNORECASE
)
_FRAME = re.compile(r"@{5,}\s*")


def failure_reason(answer: Mapping[str, Any]) -> str:
    """Why a module failed. Where it did not even answer, Ansible tells of bad JSON, and the host's last words say why:
    most often there is no such Python.
    """
    if timed_out(answer):
        period = (answer["timedout"] or {}).get("period") if isinstance(answer["timedout"], Mapping) else None
        return f"no answer within {period} s" if period else "no answer in time"
    message = str(answer.get("msg"))
    words = str(answer.get("module_stderr") or answer.get("module_stdout") or "").strip().splitlines()
    if not words:
        return f"{message}{_what_to_set(message)}"
    said = f"the module did not answer, and the host said: {words[-1].strip()}"
    if hint := _what_to_set(words[-1]):
        return f"{said}{hint}"
    if any(line.startswith("Traceback") for line in words):
        return said
    return f"{said} (if that is for want of a Python that works, name one by ansible_python_interpreter of the host)"


def timed_out(answer: Mapping[str, Any]) -> bool:
    """Whether Ansible gave a task up that took longer than it may: the host hangs behind a connection that lives."""
    return bool(answer.get("timedout"))


def silence_reason(answer: Mapping[str, Any]) -> str:
    """Why a host does not answer at all: the first line of what ssh said."""
    line = first_line(answer.get("msg")).removeprefix("Task failed: ").rstrip(" :")
    return f"{line}{_what_to_set(line)}"


def first_line(text: Any) -> str:
    """The first line of what Ansible said, for a one-line report."""
    # ssh frames its warning of a changed host key in rows of @, which would be all there is to see.
    lines = _FRAME.sub("", str(text or "no reason given")).strip().splitlines()
    return lines[0] if lines else "no reason given"


def _what_to_set(said: str) -> str:
    """What to do about it, in brackets; nothing for what is not known."""
    if _REFUSED_LOGIN.search(said):
        return " (the host refuses this login: see ansible_user of the host, and the ssh key that is offered to it)"
    if _NO_PASSWORD.search(said):
        return " (sudo on the host wants a password: let this user sudo without, or set ansible_become_password)"
    if _MAY_NOT.search(said):
        return (
            " (the user that Ansible logs in as may not do that: set ansible_become of the host to true, or log in as"
            " root by ansible_user)"
        )
    return ""
