# SPDX-License-Identifier: Apache-2.0
"""All that is promised on a board, so that two moments can be compared."""

from __future__ import annotations

from typing import Any

from llmgw.placement.board import Board


def state(board: Board) -> dict[str, Any]:
    """Everything that is promised on a board, and all that follows from it."""
    return {
        "devices": {name: one.taken for name, one in board.ledgers.items()},
        "holders": {name: +one._holders for name, one in board.ledgers.items()},
        "memory": {name: one.unpromised_memory() for name, one in board.ledgers.items()},
        "ports": {name: (set(one._ports), one.free_port(), one.free_port(2)) for name, one in board.ledgers.items()},
        "replicas": {name: (dict(one.replicas), one.total) for name, one in board.ledgers.items()},
        "states": {name: one.state for name, one in board.ledgers.items()},
        "open": {name: dict(nodes) for name, nodes in board._open.items() if nodes},
        "tallies": {name: (dict(one.nodes), dict(one.domains), one.share) for name, one in board._tallies.items()},
        "bytes": {key: size for key, size in board._disks._total.items() if size},
        "models": {key: tuple(entry) for key, entry in board._disks._models.items()},
        "disks": dict(board._disk_of),
        "assigned": dict(board.assigned),
        "on nodes": {name: dict(ones) for name, ones in board.on_node.items()},
    }
