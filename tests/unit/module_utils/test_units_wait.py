# SPDX-License-Identifier: Apache-2.0
"""Waiting for units, as far as no systemd is needed; tests/systemd has the rest."""

from __future__ import annotations

import subprocess
import sys

from ansible_collections.llmgw.fleet.plugins.module_utils import units_wait

HANGS = """
import time
from ansible_collections.llmgw.fleet.plugins.module_utils import units_wait
units_wait._Question("1", lambda: time.sleep(300))
"""


def test_a_question_that_is_never_answered_does_not_keep_the_process() -> None:
    assert units_wait.__file__
    folder = units_wait.__file__.split("/ansible_collections/")[0]
    ended = subprocess.run([sys.executable, "-c", HANGS], env={"PYTHONPATH": folder}, timeout=50, check=False)
    assert ended.returncode == 0
