# SPDX-License-Identifier: Apache-2.0
"""What comes before every relaxation: facts that nobody has read, mistakes in the catalog; and whether more hardware
would help at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmgw.model.node import NodeState
from llmgw.model.replica import ProfileSpec, ServiceSpec
from llmgw.model.why import NodeWhy
from llmgw.placement.board import Board
from llmgw.placement.why.others import named

_MISTAKES = {"engine-support", "shape"}
"""What no node can do anything about."""
_OF_UNSEEN = {"node-state", "fabric", "partners"}
"""What a node fails of which nothing is known, whatever it is."""
_HARDWARE = {"class", "devices", "partners", "capability", "device-memory"}
"""What more nodes, or larger ones, would mend."""
_NAMED = 8


def comes_first(board: Board, service: ServiceSpec, nodes: Sequence[NodeWhy]) -> Iterator[str]:
    """What has to be done before anything else is worth it, in sentences."""
    for profile in service.profiles:
        mistake = _mistake(profile, nodes)
        if mistake is not None:
            entry = f"profiles.{profile.name}"
            yield f"No node can serve profile {profile.name}: {mistake}. The catalog has to be mended first ({entry})"
    unseen = sorted({one.node for one in nodes if _is_unseen(board, one)})
    if unseen:
        yield f"Nothing is known of {named(unseen, _NAMED, 'and')}: run `llmgw facts refresh` first"


def hardware_helps(service: ServiceSpec, nodes: Sequence[NodeWhy]) -> bool:
    """Whether devices alone are what is lacking somewhere, so that more of them would do."""
    on_devices = {profile.name for profile in service.profiles if not profile.on_cpu}
    return any(
        one.profile in on_devices and not one.fits and {check.constraint for check in one.failing} <= _HARDWARE
        for one in nodes
    )


def _mistake(profile: ProfileSpec, nodes: Sequence[NodeWhy]) -> str | None:
    mine = next((one for one in nodes if one.profile == profile.name), None)
    found = [check for check in (mine.failing if mine else ()) if check.constraint in _MISTAKES]
    if not found:
        return None
    told = "; ".join(check.message for check in found)
    return told + _how(profile) if found[-1].constraint == "shape" else told


def _how(profile: ProfileSpec) -> str:
    """How the sizes of a profile add up."""
    ranks = profile.tensor_parallel * profile.pipeline_parallel * profile.data_parallel
    devices = profile.gpus * profile.nodes
    if ranks in (1, devices):
        return ": set gpus and nodes to 1"
    ways = []
    others = profile.pipeline_parallel * profile.data_parallel
    if devices % others == 0:
        ways.append(f"set tensor_parallel to {devices // others}")
    if ranks % profile.nodes == 0:
        ways.append(f"gpus to {ranks // profile.nodes}" if ways else f"set gpus to {ranks // profile.nodes}")
    return f": {' or '.join(ways)}" if ways else ""


def _is_unseen(board: Board, one: NodeWhy) -> bool:
    """Whether nothing but that nobody knows it keeps the replica off a node."""
    unseen = board.ledgers[one.node].node.state is NodeState.UNSEEN
    return unseen and {check.constraint for check in one.failing} <= _OF_UNSEEN
