# SPDX-License-Identifier: BSD-2-Clause
"""The facts contract: what a node reports about itself (spec D1-D18), as standard-library dataclasses.

Private to llmgw: nodes build these and send `asdict`, the controller validates the same classes. Every field has a
default that means unknown (None) or "looked, found none" (an empty tuple), so that facts of another module stay
readable (D15). Units are in the names: `*_bytes`, `*_mib`, `*_c` (Celsius), `*_w` (watts); times are Unix seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

CONTRACT_VERSION = 1


@dataclass(frozen=True)
class Finding:
    """One judgement about a node or a part of it; severity is `block`, `warn` or `info` (D3)."""

    code: str
    severity: str
    message: str
    remedy: Optional[str] = None
    subject: Optional[str] = None  # UUID of a device, a unit's name, a mount point; None: the node
    evidence: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Probe:
    """How one part of the discovery went (D15)."""

    name: str
    seconds: float
    ok: bool
    detail: Optional[str] = None


@dataclass(frozen=True)
class System:
    """The operating system and its service manager."""

    hostname: Optional[str] = None
    os: Optional[str] = None
    os_version: Optional[str] = None
    kernel: Optional[str] = None
    architecture: Optional[str] = None
    boot_id: Optional[str] = None
    booted_at: Optional[float] = None
    clock: Optional[float] = None
    python_version: Optional[str] = None
    systemd_version: Optional[int] = None
    scope: Optional[str] = None  # system | user
    journal: Optional[bool] = None  # whether units can log to journald
    ephemeral_ports: Optional[Tuple[int, int]] = None
    listening_ports: Optional[Tuple[int, ...]] = None


@dataclass(frozen=True)
class Memory:
    """Host memory (D10)."""

    total_bytes: Optional[int] = None
    available_bytes: Optional[int] = None


@dataclass(frozen=True)
class Cpu:
    """Processors (D10); flags are those engines ask about (avx2, avx512f, amx_tile, ...)."""

    model: Optional[str] = None
    sockets: Optional[int] = None
    cores: Optional[int] = None
    threads: Optional[int] = None
    numa_nodes: Optional[int] = None
    flags: Optional[Tuple[str, ...]] = None


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
    """One XID of the kernel log since boot, mapped to the card by PCI address (D3)."""

    code: int
    time: Optional[float] = None
    message: Optional[str] = None


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
    """Multi-node NVLink state of a card (D7); names and words are the driver's."""

    state: Optional[str] = None
    status: Optional[str] = None
    cluster_uuid: Optional[str] = None
    clique_id: Optional[int] = None
    health_summary: Optional[str] = None
    bandwidth: Optional[str] = None


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
    unified_memory: Optional[bool] = None
    utilization_percent: Optional[int] = None
    temperature_c: Optional[int] = None
    power_draw_w: Optional[float] = None
    power_limit_w: Optional[float] = None
    persistence_mode: Optional[bool] = None
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


@dataclass(frozen=True)
class ImexNode:
    """One line of the IMEX node list."""

    address: str
    status: Optional[str] = None
    local: Optional[bool] = None


@dataclass(frozen=True)
class Imex:
    """The node's IMEX service (D7)."""

    active: Optional[bool] = None
    domain_state: Optional[str] = None
    nodes: Tuple[ImexNode, ...] = ()
    channels: Optional[Tuple[int, ...]] = None


@dataclass(frozen=True)
class RdmaPort:
    """One port of an InfiniBand or RoCE adapter (D8), as /sys/class/infiniband tells it."""

    device: str
    port: int
    link_layer: Optional[str] = None
    state: Optional[str] = None
    physical_state: Optional[str] = None
    rate_gbps: Optional[float] = None
    lid: Optional[int] = None
    sm_lid: Optional[int] = None
    port_guid: Optional[str] = None
    gids: Tuple[str, ...] = ()
    pkeys: Tuple[str, ...] = ()
    netdev: Optional[str] = None
    pci_address: Optional[str] = None
    numa_node: Optional[int] = None
    virtual_function: Optional[bool] = None
    switch_management: Optional[bool] = None
    sm_guids: Optional[Tuple[str, ...]] = None
    subnet_port_guids: Optional[Tuple[str, ...]] = None


@dataclass(frozen=True)
class Filesystem:
    """One mounted filesystem that matters (D11): holds a model directory, the state directory or the root."""

    mount_point: str
    source: Optional[str] = None
    type: Optional[str] = None
    total_bytes: Optional[int] = None
    free_bytes: Optional[int] = None
    shared: Optional[bool] = None
    read_only: Optional[bool] = None
    transport: Optional[str] = None  # of the block device below: pcie, rdma, tcp, fc, sata, ...
    directories: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Weights:
    """Weights of one model seen in a model directory (D12); `complete` is None when it could not be judged."""

    model: str
    path: str
    layout: Optional[str] = None  # hf-cache | directory | gguf
    revision: Optional[str] = None
    size_bytes: Optional[int] = None
    complete: Optional[bool] = None
    missing: Tuple[str, ...] = ()
    mount_point: Optional[str] = None
    shared: Optional[bool] = None


@dataclass(frozen=True)
class Engine:
    """One engine that is installed (D13); `runnable` is None when it was not tried."""

    kind: str  # vllm | sglang | llama.cpp | sim
    command: Tuple[str, ...]
    version: Optional[str] = None
    runnable: Optional[bool] = None
    reason: Optional[str] = None


@dataclass(frozen=True)
class ObservedUnit:
    """One llmgw unit on the node (D14). Digests: `unitfile.py` says what each covers.

    `process_digest` and `text_digest` are what the header claims, `actual_text_digest` is computed from the file,
    `running_digest` is what the running main process was started with (None: not running or unreadable).
    """

    name: str
    replica: Optional[str] = None
    rank: Optional[int] = None
    members: Optional[int] = None
    profile: Optional[str] = None
    model: Optional[str] = None
    engine: Optional[str] = None
    served_name: Optional[str] = None
    address: Optional[str] = None
    port: Optional[int] = None
    devices: Tuple[str, ...] = ()
    active_state: Optional[str] = None  # systemd's: active, activating, deactivating, failed, inactive
    sub_state: Optional[str] = None
    result: Optional[str] = None
    enabled: Optional[bool] = None
    since: Optional[float] = None
    restarts: Optional[int] = None
    main_pid: Optional[int] = None
    memory_bytes: Optional[int] = None
    memory_min_bytes: Optional[int] = None
    ready: Optional[bool] = None
    process_digest: Optional[str] = None
    running_digest: Optional[str] = None
    text_digest: Optional[str] = None
    actual_text_digest: Optional[str] = None
    edited: Optional[bool] = None
    needs_reload: Optional[bool] = None  # the file changed after systemd read it
    generation: Optional[int] = None
    text: Optional[str] = None


@dataclass(frozen=True)
class ForeignEngine:
    """An engine process that no llmgw unit owns; it is named, blocks its devices and is never killed (D14)."""

    pid: int
    name: str
    devices: Tuple[str, ...] = ()


@dataclass(frozen=True)
class PublishedBundle:
    """The bundle a gateway host holds (R11): its generation and the digest of its routes."""

    path: str
    generation: Optional[int] = None
    routes_digest: Optional[str] = None
    written_at: Optional[float] = None


@dataclass(frozen=True)
class EndpointHealth:
    """What the gateway on this host says of one endpoint; evidence for lost nodes (P9)."""

    endpoint: str
    state: Optional[str] = None
    in_flight: Optional[int] = None
    since: Optional[float] = None


@dataclass(frozen=True)
class GatewayFacts:
    """The gateway of a gateway host: `reachable` is None when it was not asked."""

    reachable: Optional[bool] = None
    generation: Optional[int] = None
    endpoints: Tuple[EndpointHealth, ...] = ()
    bundle: Optional[PublishedBundle] = None


@dataclass(frozen=True)
class NodeFacts:
    """All that one node reports. A part that could not be read is None, with a finding that says why."""

    contract_version: int = CONTRACT_VERSION
    module_version: Optional[str] = None
    collected_at: Optional[float] = None
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
    cordoned: Optional[bool] = None  # by a marker on the node
    drained: Optional[bool] = None
    gateway: Optional[GatewayFacts] = None
    findings: Tuple[Finding, ...] = ()
    probes: Tuple[Probe, ...] = ()
