# SPDX-License-Identifier: Apache-2.0
"""The catalog that a sound document means: references followed, defaults filled in, everything in a canonical order."""

from __future__ import annotations

from dataclasses import asdict, replace

from llmgw.catalog.checks.services import models_of
from llmgw.catalog.parallelism import CPU, shape
from llmgw.catalog.ports import ports
from llmgw.catalog.schema.document import Document
from llmgw.catalog.schema.gateway import Fleet, Gateway
from llmgw.catalog.schema.services import Rollout, Service, Split
from llmgw.model.ids import DeviceClass, EngineKind, ModelName, ProfileName, ServiceName
from llmgw.model.replica import (
    AdmissionSpec,
    ApiKeySpec,
    CanarySpec,
    CanarySplit,
    Catalog,
    FleetSpec,
    GatewaySpec,
    ModelSpec,
    ProfileSpec,
    RolloutSpec,
    ServiceSpec,
)
from llmgw.nodekit import unitfile

_GB = 10**9
_MIB = 2**20


def resolve(document: Document) -> Catalog:
    """The catalog of a document that `llmgw.catalog.checks` finds nothing wrong with; its digest covers the rest."""
    catalog = Catalog(
        services=tuple(_service(document, name) for name in sorted(document.services)),
        gateway=_gateway(document.gateway),
        fleet=_fleet(document.fleet),
    )
    return replace(catalog, digest=digest(catalog))


def digest(catalog: Catalog) -> str:
    """The digest of a catalog's content, whatever its text looked like."""
    return unitfile.digest({**asdict(catalog), "digest": ""})


def _service(document: Document, name: str) -> ServiceSpec:
    service: Service = document.services[name]
    served_name = service.served_name or name
    inherited = {alias for model in models_of(document, service) for alias in document.models[model].aliases}
    return ServiceSpec(
        name=ServiceName(name),
        served_name=served_name,
        aliases=tuple(sorted({*service.aliases, *inherited} - {served_name})),
        profiles=tuple(_profile(document, profile) for profile in service.profiles),
        replicas=service.replicas,
        spread=service.spread,
        priority=service.priority,
        rollout=_rollout(service.rollout),
        admission=AdmissionSpec(
            max_concurrency=service.admission.max_concurrency,
            max_queue=service.admission.max_queue,
            queue_timeout_s=service.admission.queue_timeout,
        ),
        policy=service.routing.policy,
        fallbacks=tuple(map(ServiceName, service.routing.fallbacks)),
        split=_split(service.routing.split),
        drain_timeout_s=service.drain_timeout,
    )


def _split(split: Split | None) -> CanarySplit | None:
    return None if split is None else CanarySplit(ServiceName(split.service), split.percent / 100)


def _rollout(rollout: Rollout) -> RolloutSpec:
    canary = rollout.canary
    return RolloutSpec(
        max_surge=rollout.max_surge,
        max_unavailable=rollout.max_unavailable,
        canary=None if canary is None else CanarySpec(canary.answers, canary.max_errors, canary.timeout),
    )


def _profile(document: Document, name: str) -> ProfileSpec:
    profile = document.profiles[name]
    meant = shape(profile)
    if meant is None:
        message = f"the profile {name} has not been checked"
        raise ValueError(message)
    return ProfileSpec(
        name=ProfileName(name),
        engine=EngineKind(profile.engine),
        model=_model(document, profile.model),
        devices=tuple(DeviceClass(device) for device in profile.devices if device != CPU),
        gpus=meant.gpus,
        tensor_parallel=meant.tensor_parallel,
        pipeline_parallel=meant.pipeline_parallel,
        nodes=meant.nodes,
        data_parallel=meant.data_parallel,
        expert_parallel=profile.expert_parallel,
        quantization=profile.quantization,
        kv_cache_dtype=profile.kv_cache_dtype,
        allow_slow_path=tuple(sorted(profile.allow_slow_path)),
        max_model_len=profile.max_model_len,
        memory_utilization=profile.memory_utilization,
        min_memory_bytes=_bytes(profile.min_memory_gb),
        min_free_disk_bytes=_bytes(profile.min_free_disk_gb),
        max_memory_bytes=_bytes(profile.max_memory_gb),
        bind_numa=profile.bind_numa,
        node_selector=_sorted(profile.node_selector),
        args=profile.args,
        env=_sorted(profile.env),
        secrets=_sorted(profile.secrets),
        threads=profile.threads,
        parallel_requests=profile.parallel_requests,
        lora=_sorted(profile.lora),
        start_timeout_s=profile.start_timeout,
        ready_timeout_s=profile.ready_timeout,
    )


def _model(document: Document, name: str) -> ModelSpec:
    model = document.models[name]
    return ModelSpec(
        name=ModelName(name),
        hf_id=model.hf_id,
        path=model.path,
        revision=model.revision,
        size_bytes=_bytes(model.size_gb),
        fetch=model.weights.fetch == "missing",
    )


def _gateway(gateway: Gateway) -> GatewaySpec:
    return GatewaySpec(
        listen=gateway.listen,
        admin_listen=gateway.admin_listen,
        tls_certificate=gateway.tls.certificate if gateway.tls else None,
        tls_key=gateway.tls.key if gateway.tls else None,
        keys=tuple(
            ApiKeySpec(
                name=name,
                sha256=key.sha256,
                services=tuple(sorted(key.services)),
                max_concurrency=key.max_concurrency,
                requests_per_minute=key.requests_per_minute,
                tokens_per_minute=key.tokens_per_minute,
                priority=key.priority,
            )
            for name, key in sorted(gateway.keys.items())
        ),
        admin_token_sha256=gateway.admin_token_sha256,
        max_body_bytes=gateway.max_body_mib * _MIB,
        connect_timeout_s=gateway.timeouts.connect,
        first_byte_timeout_s=gateway.timeouts.first_byte,
        idle_timeout_s=gateway.timeouts.idle,
        total_timeout_s=gateway.timeouts.total,
        probe_interval_s=gateway.probe_interval,
        workers=gateway.workers,
        access_log=gateway.access_log,
        explain_share=gateway.explain_percent / 100,
    )


def _fleet(fleet: Fleet) -> FleetSpec:
    return FleetSpec(
        port_range=ports(fleet.port_range),
        lost_after_s=fleet.lost_after,
        engines_reachable_from=tuple(sorted(fleet.engines_reachable_from)),
    )


def _bytes(gigabytes: float | None) -> int | None:
    return None if gigabytes is None else round(gigabytes * _GB)


def _sorted(mapping: dict[str, str]) -> dict[str, str]:
    return dict(sorted(mapping.items()))
