# SPDX-License-Identifier: BSD-2-Clause
"""What every part of the facts may carry: findings (D3) and how each probe went (D15)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple


@dataclass(frozen=True)
class Finding:
    """One judgement about a node or a part of it; severity is `block`, `warn` or `info` (D3)."""

    code: str
    severity: str
    message: str
    remedy: Optional[str] = None
    subject: Optional[str] = None  # UUID of a device, a unit's name, a mount point; None: the node
    evidence: Tuple[str, ...] = ()
    part: Optional[str] = None  # of discovery that found it; None: found elsewhere


@dataclass(frozen=True)
class Probe:
    """How one part of the discovery went (D15)."""

    name: str
    seconds: float
    ok: bool
    detail: Optional[str] = None
    at: Optional[float] = None  # when it was read: parts that a call left out keep the time of an earlier one
