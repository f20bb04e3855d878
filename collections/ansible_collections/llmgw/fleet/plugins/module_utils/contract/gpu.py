# SPDX-License-Identifier: BSD-2-Clause
"""Cards and MIG instances (D2-D7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple


@dataclass(frozen=True)
class DeviceProcess:
    """A process that holds device memory; `unit` is the llmgw unit that owns it, None when foreign (D3, D14)."""

    pid: int
    name: Optional[str] = None
    used_mib: Optional[int] = None
    unit: Optional[str] = None
    kind: Optional[str] = None  # C compute, G graphics, C+G, M+C: compute through MPS


@dataclass(frozen=True)
class Xid:
    """The last XID of one kind in the kernel log since boot, mapped to the card by PCI address (D3)."""

    code: int
    time: Optional[float] = None
    message: Optional[str] = None
    count: Optional[int] = None  # how often the log has it
    cleared: Optional[str] = None  # how it is known that the card was reset since; None: it was not, as far as is known


@dataclass(frozen=True)
class Ecc:
    """ECC state; volatile counts are since the driver loaded, aggregate ones for the card's life."""

    enabled: Optional[bool] = None
    corrected_volatile: Optional[int] = None
    uncorrected_volatile: Optional[int] = None
    corrected_aggregate: Optional[int] = None
    uncorrected_aggregate: Optional[int] = None
    sram_threshold_exceeded: Optional[bool] = None


@dataclass(frozen=True)
class Remap:
    """Row remapping (Ampere and newer) or page retirement (older)."""

    corrected_rows: Optional[int] = None
    uncorrected_rows: Optional[int] = None
    pending: Optional[bool] = None
    failed: Optional[bool] = None
    retired_pages: Optional[int] = None
    retired_pending: Optional[bool] = None


@dataclass(frozen=True)
class MigInstance:
    """One MIG device (D5): `index` is the MIG device index, placement index is 1000 + 100 x card + index."""

    uuid: Optional[str]
    index: int
    gpu_instance_id: Optional[int] = None
    compute_instance_id: Optional[int] = None
    profile: Optional[str] = None
    device_class: Optional[str] = None
    memory_total_mib: Optional[int] = None
    memory_used_mib: Optional[int] = None
    multiprocessors: Optional[int] = None
    processes: Optional[Tuple[DeviceProcess, ...]] = None
    ecc: Optional[Ecc] = None  # of the instance's own share; what only the card counts stays the card's


@dataclass(frozen=True)
class NvlinkPeer:
    """Another card of the node reached over NVLink, with the number of links."""

    uuid: str
    links: Optional[int] = None


@dataclass(frozen=True)
class NicPath:
    """How far a network adapter is from a card: PIX, PXB, PHB, NODE or SYS (D6)."""

    device: str
    distance: str


@dataclass(frozen=True)
class GpuFabric:
    """Multi-node NVLink state of a card (D7); words are those of `nvidia-smi -q`, whichever path read them."""

    state: Optional[str] = None
    status: Optional[str] = None
    cluster_uuid: Optional[str] = None
    clique_id: Optional[int] = None
    health_summary: Optional[str] = None
    bandwidth: Optional[str] = None  # Full | Degraded
    route_recovery: Optional[bool] = None
    route_unhealthy: Optional[bool] = None
    access_timeout_recovery: Optional[bool] = None
    incorrect_configuration: Optional[str] = None  # the driver's word; None also where it says None


@dataclass(frozen=True)
class Gpu:
    """One card (D2-D7). In MIG mode the instances are what can be placed on, heat, power and wear stay the card's."""

    index: int
    uuid: Optional[str]
    name: Optional[str] = None
    device_class: Optional[str] = None
    pci_address: Optional[str] = None
    serial: Optional[str] = None
    form_factor: Optional[str] = None
    compute_capability: Optional[str] = None
    memory_total_mib: Optional[int] = None
    memory_used_mib: Optional[int] = None
    memory_reserved_mib: Optional[int] = None
    unified_memory: Optional[bool] = None
    utilization_percent: Optional[int] = None
    temperature_c: Optional[int] = None
    power_draw_w: Optional[float] = None
    power_limit_w: Optional[float] = None
    persistence_mode: Optional[bool] = None
    pcie_width: Optional[int] = None
    pcie_width_max: Optional[int] = None
    throttle_reasons: Optional[Tuple[str, ...]] = None
    recovery_action: Optional[str] = None
    ecc: Optional[Ecc] = None
    remap: Optional[Remap] = None
    xids: Optional[Tuple[Xid, ...]] = None
    processes: Optional[Tuple[DeviceProcess, ...]] = None
    mig_mode: Optional[bool] = None
    mig_pending: Optional[bool] = None
    mig_instances: Tuple[MigInstance, ...] = ()
    numa_node: Optional[int] = None
    cpu_affinity: Optional[str] = None
    memory_numa_node: Optional[int] = None  # NUMA node that the card's own memory is (Grace)
    nvlink_links: Optional[int] = None
    nvlink_links_active: Optional[int] = None
    nvlink_gbps: Optional[float] = None  # GB/s of one link and direction
    nvlink_peers: Optional[Tuple[NvlinkPeer, ...]] = None
    nic_paths: Optional[Tuple[NicPath, ...]] = None
    fabric: Optional[GpuFabric] = None
    vulkan_index: Optional[int] = None


@dataclass(frozen=True)
class GpuDriver:
    """Which path read the cards (nvml or nvidia-smi) and why a better one did not (D1)."""

    source: Optional[str] = None
    fallback_reason: Optional[str] = None
    driver_version: Optional[str] = None
    cuda_version: Optional[str] = None
