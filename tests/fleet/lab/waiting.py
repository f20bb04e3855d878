# SPDX-License-Identifier: Apache-2.0
"""Waiting with an end, for what gives no other sign than its state."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.fleet.lab.errors import LabError


def wait_until(done: Callable[[], bool], timeout: float, what: str) -> None:
    """Returns when `done()` is true; raises LabError that names `what` after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not done():
        if time.monotonic() > deadline:
            raise LabError(f"waited {timeout:g} s for {what}")
        time.sleep(0.02)
