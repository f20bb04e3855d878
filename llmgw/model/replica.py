# SPDX-License-Identifier: Apache-2.0
"""What the catalog asks for after resolving: services, their profiles, and how a replica is served."""

from __future__ import annotations

from dataclasses import dataclass, field

from llmgw.model.ids import DeviceClass, EngineKind, ModelName, ProfileName, ServiceName


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model: where its weights are named from. `path` and `hf_id` exclude one another."""

    name: ModelName
    hf_id: str | None = None
    path: str | None = None
    revision: str | None = None
    size_bytes: int | None = None
    fetch: bool = False
    """Whether a node that lacks the weights fetches them before a replica starts there (D12)."""


@dataclass(frozen=True, slots=True)
class ProfileSpec:
    """One way to serve a model (C2). `devices` empty means CPU."""

    name: ProfileName
    engine: EngineKind
    model: ModelSpec
    devices: tuple[DeviceClass, ...] = ()
    gpus: int = 0
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    nodes: int = 1
    data_parallel: int = 1
    """Copies of the model inside one replica, each on devices of its own; the engine spreads requests over them."""
    expert_parallel: bool = False
    """Whether the experts of a mixture are spread over the devices as wholes instead of each being cut."""
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    allow_slow_path: tuple[str, ...] = ()
    """Fields among `quantization` and `kv_cache_dtype` that may take the engine's slower way on older devices (C5)."""
    max_model_len: int | None = None
    memory_utilization: float | None = None
    min_memory_bytes: int | None = None
    min_free_disk_bytes: int | None = None
    max_memory_bytes: int | None = None
    """Host memory beyond which the kernel ends a member; None: no limit."""
    bind_numa: bool = True
    """Whether a member whose devices are all of one NUMA node is kept on it (P4)."""
    node_selector: dict[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    """Variable of the engine -> name of a secret on its node (R10)."""
    threads: int | None = None
    parallel_requests: int | None = None
    lora: dict[str, str] = field(default_factory=dict)
    start_timeout_s: int = 60
    """Until the process answers at all."""
    ready_timeout_s: int | None = None
    """Until the weights are served under the expected name; None: by their size and disk."""

    @property
    def on_cpu(self) -> bool:
        """Whether replicas need no device."""
        return not self.devices


@dataclass(frozen=True, slots=True)
class CanarySpec:
    """What the first replaced replica must do before others follow."""

    answers: int = 20
    max_errors: int = 0
    timeout_s: int = 600


@dataclass(frozen=True, slots=True)
class RolloutSpec:
    """How a service changes (R4). `max_surge` None: one stand-in where else nothing might serve, none elsewhere."""

    max_surge: int | None = None
    max_unavailable: int = 1
    canary: CanarySpec | None = None


@dataclass(frozen=True, slots=True)
class AdmissionSpec:
    """Limits of one service at one gateway (G5); None: no limit of that kind."""

    max_concurrency: int | None = None
    max_queue: int | None = None
    queue_timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class CanarySplit:
    """A share of a service's requests that another service answers: `share` is from 0 to 1 (G4)."""

    service: ServiceName
    share: float


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """What clients call (C3). `profiles` are in order of preference."""

    name: ServiceName
    served_name: str
    aliases: tuple[str, ...]
    profiles: tuple[ProfileSpec, ...]
    replicas: int
    spread: str | None = None
    """None, `node`, or the name of a label (rack, domain, ...)."""
    priority: int = 0
    rollout: RolloutSpec = field(default_factory=RolloutSpec)
    admission: AdmissionSpec = field(default_factory=AdmissionSpec)
    policy: str = "cost"
    fallbacks: tuple[ServiceName, ...] = ()
    """Services that answer in its place, the first that can, while none of its replicas is ready."""
    split: CanarySplit | None = None
    drain_timeout_s: int = 60


@dataclass(frozen=True, slots=True)
class ApiKeySpec:
    """One client key: its name and the SHA-256 of the key (G8)."""

    name: str
    sha256: str
    services: tuple[str, ...] = ()
    """Services it may use; empty: all."""
    max_concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    priority: int = 0
    """Of two requests that wait, the one of higher priority goes first."""


@dataclass(frozen=True, slots=True)
class GatewaySpec:
    """The gateway's part of the catalog (C4). Sizes in bytes, times in seconds."""

    listen: str = "0.0.0.0:8080"
    admin_listen: str = "127.0.0.1:8081"
    tls_certificate: str | None = None
    tls_key: str | None = None
    keys: tuple[ApiKeySpec, ...] = ()
    admin_token_sha256: str | None = None
    max_body_bytes: int = 32 * 1024 * 1024
    connect_timeout_s: float = 2.0
    first_byte_timeout_s: float = 600.0
    idle_timeout_s: float = 120.0
    total_timeout_s: float | None = None
    probe_interval_s: float = 1.0
    workers: int = 1
    """Processes that serve clients."""
    access_log: str | None = None
    """Path of a file of JSON lines; None: no access log."""
    explain_share: float = 0.01
    """Share of requests whose routing is kept for /api/v1/explain."""


GATEWAYS = "gateways"
"""In `FleetSpec.engines_reachable_from`: the addresses of all gateway hosts."""


@dataclass(frozen=True, slots=True)
class FleetSpec:
    """Rules for the whole fleet: engine ports, and when a node counts as lost (P9)."""

    port_range: tuple[int, int] = (18000, 18999)
    lost_after_s: int = 300
    engines_reachable_from: tuple[str, ...] = ()
    """Networks from which engines answer, and the word `gateways`; empty: whoever reaches the node."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """The resolved catalog: services sorted by name, everything they name resolved, limits applied. Pure data."""

    services: tuple[ServiceSpec, ...]
    gateway: GatewaySpec = field(default_factory=GatewaySpec)
    fleet: FleetSpec = field(default_factory=FleetSpec)
    digest: str = ""
