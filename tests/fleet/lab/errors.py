# SPDX-License-Identifier: Apache-2.0
"""The lab's one error."""

from __future__ import annotations


class LabError(Exception):
    """The lab could not do what it was asked for; the message carries the end of the log that says why."""
