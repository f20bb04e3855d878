# SPDX-License-Identifier: Apache-2.0
"""How long a replica may take to become ready, where its profile does not say: by the size of its weights and where
they lie.
"""

from __future__ import annotations

import re

from llmgw.engines.unit_text import unit_text
from llmgw.fleet.weights import usable
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ProfileSpec

LEAST_S = 600
"""vLLM compiles and captures graphs for minutes, however small the model is; its own limit is this (domain.md A1)."""
LOCAL_BYTES_PER_S = 200_000_000
"""A slow local disk, or one that several replicas read at a time."""
SHARED_BYTES_PER_S = 50_000_000
"""A busy filer, and the same for weights that the engine itself must fetch."""
UNKNOWN_S = 3600
"""Weights of unknown size that are not on a local disk: 150 GB from a busy filer."""

_WRITTEN = re.compile(r"^ReadyTimeoutS=([0-9]{1,9})$", re.MULTILINE)


def patience_s(assignment: Assignment, member: Member, node: Node) -> int:
    """`ready_timeout_s` of a member; where the profile says nothing, not less than its unit says already: weights that
    are seen, or no more, rewrite nothing.
    """
    seconds = ready_timeout_s(assignment.profile, node)
    if assignment.profile.ready_timeout_s is not None:
        return seconds
    written = _WRITTEN.search(unit_text(assignment, member, node))
    return max(seconds, int(written[1])) if written else seconds


def ready_timeout_s(profile: ProfileSpec, node: Node) -> int:
    """Seconds from the start until the weights must be served: the profile's, else 10 minutes and what reading takes.

    Weights that llmgw fetches are there before the engine starts, and count as lying on the disk that they lie on.
    """
    if profile.ready_timeout_s is not None:
        return profile.ready_timeout_s
    seen = node.facts.weights if node.facts else None
    held = usable(profile.model, seen or ())
    sizes = [one.size_bytes for one in held if one.size_bytes is not None]
    size = max(sizes) if sizes else profile.model.size_bytes
    local = bool(held) and all(one.shared is False for one in held)
    if size is None:
        return LEAST_S if local or profile.model.path is not None else UNKNOWN_S
    return LEAST_S + size // (LOCAL_BYTES_PER_S if local else SHARED_BYTES_PER_S)
