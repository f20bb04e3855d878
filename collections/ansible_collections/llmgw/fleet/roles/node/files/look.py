# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: I002 - Python 3.6 does not know that import
"""Prints what the role must know of a node before it changes anything, as one line of JSON.

Arguments: the user that engines run as, then names of groups that may open devices. Any Python 3 can read this, so that
one that is too old for llmgw is told and not tripped over.
"""

import ctypes
import grp
import importlib.util
import json
import os
import pwd
import shutil
import sys
from typing import Any, Callable


def loads(library: str) -> bool:
    """Tells whether a shared library is there."""
    try:
        return bool(ctypes.CDLL(library))
    except OSError:
        return False


def known(look_up: Callable[[str], Any], name: str) -> bool:
    """Tells whether a user or group of this name exists."""
    try:
        return bool(look_up(name))
    except KeyError:
        return False


def main() -> None:
    """Prints the answer."""
    user, groups = sys.argv[1], sys.argv[2:]
    # What llama.cpp's package needs and does not bring, by the names that Debian and Ubuntu give it.
    there = {
        "python3-venv": all(map(importlib.util.find_spec, ("venv", "ensurepip"))),
        "libgomp1": loads("libgomp.so.1"),
    }
    answer = {
        "python": ".".join(map(str, sys.version_info[:2])),
        "uid": os.geteuid(),
        "missing": [name for name, present in there.items() if not present],
        "apt": bool(shutil.which("apt-get")),
        "user": known(pwd.getpwnam, user),
        "groups": [name for name in groups if known(grp.getgrnam, name)],
        "nvidia": any(map(os.path.exists, ("/proc/driver/nvidia/version", "/sys/module/nvidia"))),
    }
    sys.stdout.write(json.dumps(answer) + "\n")


main()
