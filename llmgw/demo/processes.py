# SPDX-License-Identifier: Apache-2.0
"""Short commands with a time limit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

_TIMEOUT_S = 10.0


def answers(argv: Sequence[str], environment: Mapping[str, str], timeout_s: float = _TIMEOUT_S) -> bool:
    """Whether a command ends well in time; its output is thrown away."""
    try:
        ended = subprocess.run(  # noqa: S603 - an argument list: no shell reads it
            argv, env={**os.environ, **environment}, capture_output=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0
