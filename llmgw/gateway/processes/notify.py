# SPDX-License-Identifier: Apache-2.0
"""Tells systemd how the gateway stands: the datagram of sd_notify(3)."""

from __future__ import annotations

import os
import socket

import structlog

READY = "READY=1"
RELOADING = "RELOADING=1"
STOPPING = "STOPPING=1"

log = structlog.get_logger()


def notify(state: str) -> None:
    """Sends `state` where a service manager waits for it; nothing happens elsewhere."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(address)
            sender.sendall(state.encode())
    except OSError as error:
        log.warning("the service manager was not told", state=state, error=str(error))
