#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for an engine on a lab's host: prints one line of JSON about what it may do, and stays."""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial

NEW_USER_NAMESPACE = 0x10000000
FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/etc", "/usr", "/srv", "/home", "/opt", "/run", "/var/lib")  # noqa: S108
SECRETS = "/var/lib/llmgw-probe/secrets/hf"
libc = ctypes.CDLL(None, use_errno=True)


def error_of(what: Callable[[], object]) -> str | None:
    """The system's word for why it failed; None when it did not."""
    try:
        what()
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)
    return None


def call(name: str, *arguments: object) -> None:
    """A call of the C library. Raises OSError."""
    if libc[name](*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)


def write(folder: str) -> None:
    """Makes a file and removes it; /tmp keeps one."""
    path = os.path.join(folder, "llmgw-probe-left")  # noqa: PTH118 - as plain as an engine does it
    with open(path, "w", encoding="ascii") as file:  # noqa: PTH123
        file.write("x")
    if folder != "/tmp":  # noqa: S108
        os.unlink(path)  # noqa: PTH108


def read(path: str) -> None:
    """Opens a file to read it."""
    with open(path, "rb"):  # noqa: PTH123
        pass


def connect() -> None:
    """A connection to the host's own sshd, by the address that the engine was given."""
    address = sys.argv[sys.argv.index("--host") + 1]
    with socket.create_connection((address, 22), timeout=10):
        pass


def main() -> None:
    """Reports and waits to be stopped."""
    with open("/proc/self/status", encoding="ascii") as file:  # noqa: PTH123
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
    no_clock = (ctypes.c_long * 2)(1, 1)
    calls = {
        "mount": lambda: call("mount", b"x", b"/mnt", b"tmpfs", 0, None),
        "user namespace": lambda: call("unshare", NEW_USER_NAMESPACE),
        "clock": lambda: call("clock_settime", 0, no_clock),
        "memory policy": lambda: call("syscall", 238 if os.uname().machine == "x86_64" else 237, 0, None, 0),
        "packet socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close(),
        "netlink socket": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close(),
        "writable code": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close(),
        "connection": connect,
    }
    home = os.environ["HOME"]
    report = {
        "arguments": sys.argv[1:],
        "environment": dict(os.environ),
        "home": home,
        "folder": os.getcwd(),  # noqa: PTH109
        "user": os.getuid(),
        "umask": status["Umask"],
        "capabilities": status["CapBnd"],
        "no_new_privileges": status["NoNewPrivs"],
        "filtered": status["Seccomp"],
        "writes": {folder: error_of(partial(write, folder)) for folder in (home, *FOLDERS)},
        "reads": {SECRETS: error_of(lambda: read(SECRETS))},
        "calls": {name: error_of(what) for name, what in calls.items()},
        "devices": sorted(os.listdir("/dev")),  # noqa: PTH208
    }
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


if __name__ == "__main__":
    main()
