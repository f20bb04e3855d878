# SPDX-License-Identifier: Apache-2.0
"""How many files this process may have open, raised as far as it goes: each connection is one of them."""

from __future__ import annotations

import resource

import structlog

SPARE = 512
"""Kept for what is no connection of a client or to an engine: files, logs, probes."""
FEW = 8192

log = structlog.get_logger()


def raise_limit() -> int:
    """The number of requests that can be in flight at once, each with a client's connection and an engine's.

    The soft limit becomes the hard one; a hard one that is low is said in the log.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < FEW:
        log.warning(
            "few files may be open, and so few requests in flight: raise LimitNOFILE= of the unit, or ulimit -n",
            files=hard,
            requests=most_requests(hard),
        )
    return most_requests(hard)


def most_requests(files: int) -> int:
    """How many requests fit below a limit on open files."""
    return max(1, (files - SPARE) // 2)
