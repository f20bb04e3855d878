# SPDX-License-Identifier: Apache-2.0
"""Ports that are in no fabric only because nothing is known of them (D8, D18). Pure."""

from __future__ import annotations

from llmgw.model.fabric import FabricPort, Verdict
from llmgw.nodekit import rdma_ports

_STATE_UNKNOWN = rdma_ports.REASONS["state-unknown"]


def is_unknown(port: FabricPort) -> bool:
    """Whether a port is excluded because its state or its kind is not known, and not for what it is."""
    return port.verdict is Verdict.EXCLUDED and (port.kind is None or _STATE_UNKNOWN in port.evidence)
