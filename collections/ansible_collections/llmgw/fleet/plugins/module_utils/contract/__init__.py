# SPDX-License-Identifier: BSD-2-Clause
"""The facts contract: what a node reports about itself (spec D1-D18), as standard-library dataclasses.

Private to llmgw: nodes build these and send `asdict`, the controller validates the same classes. Every field has a
default that means unknown (None) or "looked, found none" (an empty tuple), so that facts of another module stay
readable (D15). Units are in the names: `*_bytes`, `*_mib`, `*_c` (Celsius), `*_w` (watts); times are Unix seconds.
"""

from __future__ import annotations

from ansible_collections.llmgw.fleet.plugins.module_utils.contract.base import Finding, Probe
from ansible_collections.llmgw.fleet.plugins.module_utils.contract.fabric import Imex, ImexNode, RdmaGid, RdmaPort
from ansible_collections.llmgw.fleet.plugins.module_utils.contract.gateway import (
    EndpointHealth,
    GatewayFacts,
    PublishedBundle,
    PublishedEndpoint,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.contract.gpu import (
    DeviceProcess,
    Ecc,
    Gpu,
    GpuDriver,
    GpuFabric,
    MigInstance,
    NicPath,
    NvlinkPeer,
    Remap,
    Xid,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.contract.host import (
    Cpu,
    Engine,
    Memory,
    NetworkInterface,
    System,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.contract.node import (
    CONTRACT_VERSION,
    NodeFacts,
    NodeMark,
    QuarantinedDevice,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.contract.storage import Filesystem, ModelArchitecture, Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.contract.units import (
    EngineMemory,
    ForeignEngine,
    ObservedUnit,
)

__all__ = [
    "CONTRACT_VERSION",
    "Cpu",
    "DeviceProcess",
    "Ecc",
    "EndpointHealth",
    "Engine",
    "EngineMemory",
    "Filesystem",
    "Finding",
    "ForeignEngine",
    "GatewayFacts",
    "Gpu",
    "GpuDriver",
    "GpuFabric",
    "Imex",
    "ImexNode",
    "Memory",
    "MigInstance",
    "ModelArchitecture",
    "NetworkInterface",
    "NicPath",
    "NodeFacts",
    "NodeMark",
    "NvlinkPeer",
    "ObservedUnit",
    "Probe",
    "PublishedBundle",
    "PublishedEndpoint",
    "QuarantinedDevice",
    "RdmaGid",
    "RdmaPort",
    "Remap",
    "System",
    "Weights",
    "Xid",
]
