# SPDX-License-Identifier: BSD-2-Clause
"""All facts of one node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils.contract.base import Finding, Probe
from ansible_collections.llmgw.fleet.plugins.module_utils.contract.fabric import Imex, RdmaPort
from ansible_collections.llmgw.fleet.plugins.module_utils.contract.gateway import GatewayFacts
from ansible_collections.llmgw.fleet.plugins.module_utils.contract.gpu import Gpu, GpuDriver
from ansible_collections.llmgw.fleet.plugins.module_utils.contract.host import Cpu, Engine, Memory, System
from ansible_collections.llmgw.fleet.plugins.module_utils.contract.storage import Filesystem, Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.contract.units import ForeignEngine, ObservedUnit

CONTRACT_VERSION = 2


@dataclass(frozen=True)
class QuarantinedDevice:
    """A device that a mark on the node keeps out until somebody clears it: a card or a MIG instance."""

    device: str  # UUID
    code: str = ""  # of the finding that it had
    message: str = ""
    since: Optional[float] = None  # Unix seconds
    by: Optional[str] = None  # who had it marked, as user@host of the controller


@dataclass(frozen=True)
class NodeMark:
    """Who marked the node, when and why; what its file does not tell is None."""

    by: Optional[str] = None  # user@host of the controller
    at: Optional[float] = None  # Unix seconds
    reason: Optional[str] = None


@dataclass(frozen=True)
class NodeFacts:
    """All that one node reports. A part that could not be read is None, with a finding that says why."""

    contract_version: int = CONTRACT_VERSION
    module_version: Optional[str] = None
    collected_at: Optional[float] = None
    hardware_key: Optional[str] = None  # boot and driver: facts of another boot or driver say nothing of this one
    gathered: Optional[Tuple[str, ...]] = None  # parts read in this call; None: all of them
    system: Optional[System] = None
    memory: Optional[Memory] = None
    cpu: Optional[Cpu] = None
    driver: Optional[GpuDriver] = None
    gpus: Optional[Tuple[Gpu, ...]] = None
    imex: Optional[Imex] = None
    rdma_ports: Optional[Tuple[RdmaPort, ...]] = None
    filesystems: Optional[Tuple[Filesystem, ...]] = None
    weights: Optional[Tuple[Weights, ...]] = None
    engines: Optional[Tuple[Engine, ...]] = None
    units: Optional[Tuple[ObservedUnit, ...]] = None
    foreign_engines: Optional[Tuple[ForeignEngine, ...]] = None
    generation: Optional[int] = None  # highest that ever touched this node
    applied_by: Optional[str] = None  # who applied that generation, as user@host of the controller
    applied_at: Optional[float] = None  # Unix seconds by the node's clock
    cordoned: Optional[bool] = None  # by a marker on the node
    drained: Optional[bool] = None
    cordon_mark: Optional[NodeMark] = None  # None: not cordoned by a marker, or nothing is known of it
    drain_mark: Optional[NodeMark] = None
    quarantined: Optional[Tuple[QuarantinedDevice, ...]] = None
    gateway: Optional[GatewayFacts] = None
    findings: Tuple[Finding, ...] = ()
    probes: Tuple[Probe, ...] = ()
