# SPDX-License-Identifier: BSD-2-Clause
"""The one error of reading and writing captures."""

from __future__ import annotations


class CaptureError(Exception):
    """Something is no capture, or not a whole one: which file or folder, why, and what helps."""

    def __init__(self, where: str, why: str, fix: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where = where
        self.why = why
        self.fix = fix
