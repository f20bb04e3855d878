# SPDX-License-Identifier: Apache-2.0
"""Misbehaviour on demand: what POST /sim/faults takes."""

from __future__ import annotations

from dataclasses import dataclass, fields

from llmgw_sim.web import bad_request


@dataclass
class Faults:
    """The faults in force; the default is none. A new set replaces the old one as a whole, so {} clears them."""

    hang: bool = False
    """Generation makes no progress, while /health stays 200."""
    die: bool = False
    """The process ends at once, with `exit_code`."""
    exit_code: int = 1
    slow_health_s: float = 0.0
    """/health takes so long."""
    health_status: int = 200
    """/health answers this."""
    error_after_chunks: int | None = None
    """A generation fails after so many tokens: a stream gets an error event."""
    disconnect_after_chunks: int | None = None
    """The connection breaks after so many tokens."""
    fail_status: int | None = None
    """Requests for the model are answered with this status ..."""
    count: int | None = None
    """... so many times; None: until cleared."""


def parse_faults(body: object) -> Faults:
    """The faults that a JSON document asks for. Raises ApiError 400 for names and types that mean nothing."""
    known = {field.name: field.default for field in fields(Faults)}
    if not isinstance(body, dict):
        raise bad_request("faults are one JSON object; {} clears them")
    for name, value in body.items():
        if name not in known:
            raise bad_request(f"unknown fault {name!r}; known: {', '.join(known)}", name)
        wanted = type(known[name]) if known[name] is not None else int
        fits = isinstance(value, (int, float)) if wanted is float else isinstance(value, wanted)
        if not fits or (wanted is not bool and (isinstance(value, bool) or value < 0)):
            raise bad_request(f"{name} takes a {wanted.__name__} that is not negative, not {value!r}", name)
    return Faults(**body)
