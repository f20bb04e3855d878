# SPDX-License-Identifier: Apache-2.0
"""How long a replica may take to become ready, where its profile does not say: by the size of its weights and where
they lie.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from llmgw.engines.unit_text import unit_text
from llmgw.fleet.weights import usable
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ProfileSpec
from llmgw.nodekit import contract

LEAST_S = 600
"""vLLM compiles and captures graphs for minutes, however small the model is; its own limit is this (domain.md A1)."""
LOCAL_BYTES_PER_S = 200_000_000
"""A slow local disk, or one that several replicas read at a time."""
SHARED_BYTES_PER_S = 50_000_000
"""A busy filer, and the same for weights that the engine itself must fetch."""
UNKNOWN_S = 3600
"""Weights of unknown size that are not on a local disk: 150 GB from a busy filer."""

_WRITTEN = re.compile(r"^ReadyTimeoutS=([0-9]{1,9})$", re.MULTILINE)


def patience_s(assignment: Assignment, member: Member, node: Node, source: str) -> int:
    """`ready_timeout_s` of a member that is given `source` as its model. Where the profile says nothing, what is seen
    of its weights after it was placed, or is not seen this time, rewrites nothing.

    Given a path, the weights there tell, and while they are not seen the unit keeps what it says. Given a name, the
    replica was placed before anything was seen, and keeps the time of then, unless its weights take longer.
    """
    profile = assignment.profile
    if profile.ready_timeout_s is not None:
        return profile.ready_timeout_s
    found = _WRITTEN.search(unit_text(assignment, member, node))
    written = int(found[1]) if found else None
    seen = node.facts.weights if node.facts else None
    if not source.startswith("/"):
        if seen is None and written is not None:
            return written
        return max(ready_timeout_s(profile, node), ready_timeout_s(profile, replace(node, facts=None)))
    there = [one for one in seen or () if one.path == source]
    if written is None:
        return _seconds(profile, there) if there else ready_timeout_s(profile, node)
    if not there or (all(one.size_bytes is None for one in there) and profile.model.size_bytes is None):
        return written
    # Whether a filesystem is shared may be unknown this time.
    near = _seconds(profile, [replace(one, shared=False) if one.shared is None else one for one in there])
    return written if written == near else _seconds(profile, there)


def ready_timeout_s(profile: ProfileSpec, node: Node) -> int:
    """Seconds from the start until the weights must be served: the profile's, else 10 minutes and what reading takes.

    Weights that llmgw fetches are there before the engine starts, and count as lying on the disk that they lie on.
    """
    if profile.ready_timeout_s is not None:
        return profile.ready_timeout_s
    return _seconds(profile, usable(profile.model, (node.facts.weights or ()) if node.facts else ()))


def _seconds(profile: ProfileSpec, held: Sequence[contract.Weights]) -> int:
    sizes = [one.size_bytes for one in held if one.size_bytes is not None]
    size = max(sizes) if sizes else profile.model.size_bytes
    local = bool(held) and all(one.shared is False for one in held)
    if size is None:
        return LEAST_S if local or profile.model.path is not None else UNKNOWN_S
    return LEAST_S + size // (LOCAL_BYTES_PER_S if local else SHARED_BYTES_PER_S)
