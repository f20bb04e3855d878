# SPDX-License-Identifier: Apache-2.0
"""The log of a gateway's process, on stderr."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog


def log_to_stderr(**always: Any) -> None:
    """One line an event, as key=value, with what is said `always`; what libraries log joins in from warnings up."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(**always)
