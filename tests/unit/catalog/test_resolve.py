# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from llmgw.catalog.resolve import digest
from llmgw.model.ids import DeviceClass, EngineKind, ModelName, ProfileName, ServiceName
from llmgw.model.replica import (
    AdmissionSpec,
    ApiKeySpec,
    Catalog,
    FleetSpec,
    GatewaySpec,
    ModelSpec,
    ProfileSpec,
    RolloutSpec,
    ServiceSpec,
)
from tests.unit.catalog.catalogs import ON_CPU, catalog, mistakes, profile, service


def test_what_the_catalog_leaves_out_is_what_the_model_leaves_out() -> None:
    model = ModelSpec(ModelName("small"), path="m.gguf")
    spec = ProfileSpec(ProfileName("small"), EngineKind("sim"), model)
    expected = ServiceSpec(ServiceName("chat"), "chat", (), (spec,), replicas=1)
    found = catalog(f"{ON_CPU}services:\n  chat: {{profiles: small}}\n")
    assert found == Catalog((expected,), GatewaySpec(), FleetSpec(), found.digest)


def test_what_a_key_leaves_out_is_what_the_model_leaves_out() -> None:
    digest = "a1" * 32
    found = catalog(f"version: 1\nservices: {{}}\ngateway: {{keys: {{web: {{sha256: '{digest}'}}}}}}\n")
    assert found.gateway == GatewaySpec(keys=(ApiKeySpec("web", digest),))


def test_every_value_reaches_the_model() -> None:
    text = f"""
version: 1
models:
  m: {{hf_id: org/m, revision: main, weights: {{fetch: missing}}}}
profiles:
  p:
    engine: vllm
    model: m
    devices: [h200-141g, h100-80g]
    gpus: 8
    nodes: 2
    tensor_parallel: 8
    pipeline_parallel: 2
    quantization: fp8
    kv_cache_dtype: fp8_e4m3
    allow_slow_path: [quantization, kv_cache_dtype]
    max_model_len: 32768
    memory_utilization: 0.85
    min_memory_gb: 1.5
    min_free_disk_gb: 100
    node_selector: {{zone: a}}
    max_memory_gb: 64
    bind_numa: false
    expert_parallel: true
    secrets: {{VLLM_API_KEY: engine-key}}
    args: [--seed, 7]
    env: {{LEVEL: 0.10}}
    threads: 4
    parallel_requests: 64
    lora: {{support: /srv/lora}}
    start_timeout: 90s
    ready_timeout: 1h30m
services:
  chat:
    profiles: p
    replicas: 3
    served_name: org/m
    aliases: [b, a]
    spread: rack
    priority: -5
    rollout: {{max_unavailable: 2}}
    admission: {{max_concurrency: 10}}
    routing: {{policy: random}}
    drain_timeout: 0
gateway:
  listen: "[::]:9000"
  admin_listen: 0.0.0.0:9001
  admin_token_sha256: {"cd" * 32}
  keys:
    b: {{sha256: {"b1" * 32}, services: chat, max_concurrency: 2}}
    a: {{sha256: {"a1" * 32}}}
  max_body_mib: 2
  timeouts: {{connect: 500ms, first_byte: 1m, idle: 30}}
  probe_interval: 0.5
fleet: {{port_range: 20000-20999, lost_after: 10m, engines_reachable_from: [gateways, 10.0.0.0/8]}}
"""
    spec = ProfileSpec(
        name=ProfileName("p"),
        engine=EngineKind("vllm"),
        model=ModelSpec(ModelName("m"), hf_id="org/m", revision="main", fetch=True),
        devices=(DeviceClass("h200-141g"), DeviceClass("h100-80g")),
        gpus=8,
        tensor_parallel=8,
        pipeline_parallel=2,
        nodes=2,
        quantization="fp8",
        kv_cache_dtype="fp8_e4m3",
        allow_slow_path=("kv_cache_dtype", "quantization"),
        max_model_len=32768,
        memory_utilization=0.85,
        min_memory_bytes=1_500_000_000,
        min_free_disk_bytes=100_000_000_000,
        expert_parallel=True,
        max_memory_bytes=64_000_000_000,
        bind_numa=False,
        secrets={"VLLM_API_KEY": "engine-key"},
        node_selector={"zone": "a"},
        args=("--seed", "7"),
        env={"LEVEL": "0.10"},
        threads=4,
        parallel_requests=64,
        lora={"support": "/srv/lora"},
        start_timeout_s=90,
        ready_timeout_s=5400,
    )
    chat = ServiceSpec(
        name=ServiceName("chat"),
        served_name="org/m",
        aliases=("a", "b"),
        profiles=(spec,),
        replicas=3,
        spread="rack",
        priority=-5,
        rollout=RolloutSpec(max_unavailable=2),
        admission=AdmissionSpec(max_concurrency=10),
        policy="random",
        drain_timeout_s=0,
    )
    gateway = GatewaySpec(
        listen="[::]:9000",
        admin_listen="0.0.0.0:9001",
        keys=(ApiKeySpec("a", "a1" * 32), ApiKeySpec("b", "b1" * 32, ("chat",), 2)),
        admin_token_sha256="cd" * 32,
        max_body_bytes=2 * 2**20,
        connect_timeout_s=0.5,
        first_byte_timeout_s=60.0,
        idle_timeout_s=30.0,
        probe_interval_s=0.5,
    )
    found = catalog(text)
    assert found == Catalog((chat,), gateway, FleetSpec((20000, 20999), 600, ("10.0.0.0/8", "gateways")), found.digest)


@pytest.mark.parametrize(
    ("written", "gpus", "nodes", "tensor", "pipeline"),
    [
        ("devices: cpu", 0, 1, 1, 1),
        ("devices: h200-141g", 1, 1, 1, 1),
        ("devices: h200-141g, gpus: 8", 8, 1, 8, 1),
        ("devices: h200-141g, gpus: 8, nodes: 2", 8, 2, 8, 2),
        ("devices: h200-141g, tensor_parallel: 4", 4, 1, 4, 1),
        ("devices: h200-141g, tensor_parallel: 4, pipeline_parallel: 2", 8, 1, 4, 2),
        ("devices: h200-141g, tensor_parallel: 4, pipeline_parallel: 2, nodes: 4", 2, 4, 4, 2),
        ("devices: h200-141g, pipeline_parallel: 2", 2, 1, 1, 2),
        ("devices: h200-141g, gpus: 2, pipeline_parallel: 2", 2, 1, 1, 2),
        ("devices: a100-80g-mig-3g.40gb, gpus: 1, tensor_parallel: 1", 1, 1, 1, 1),
    ],
)
def test_what_is_not_said_of_parallelism_follows_from_the_rest(
    written: str, gpus: int, nodes: int, tensor: int, pipeline: int
) -> None:
    found = profile(written)
    shape = (found.gpus, found.nodes, found.tensor_parallel, found.pipeline_parallel)
    assert shape == (gpus, nodes, tensor, pipeline)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90", 90), ("90s", 90), ("5m", 300), ("1h", 3600), ("1h30m", 5400), ("1.5m", 90), ("1d", 86400), ("2000ms", 2)],
)
def test_durations_are_read_into_seconds(written: str, seconds: int) -> None:
    assert profile(f"ready_timeout: {written}").ready_timeout_s == seconds


def test_numbers_as_text_stay_as_they_were_written() -> None:
    found = profile("node_selector: {cuda: 12.10, rack: 007}, env: {A: 1e3, B: 0x10}, args: [0.90, 1_000, -1]")
    assert found.node_selector == {"cuda": "12.10", "rack": "007"}
    assert found.env == {"A": "1e3", "B": "0x10"}
    assert found.args == ("0.90", "1_000", "-1")


def test_words_that_are_truth_values_elsewhere_are_text() -> None:
    assert profile("env: {A: yes, B: off}").env == {"A": "yes", "B": "off"}


def test_one_value_stands_for_a_list_of_one() -> None:
    assert service("aliases: gpt").aliases == ("gpt",)


def test_an_alias_of_a_model_is_one_of_its_service_too() -> None:
    text = """
version: 1
models: {m: {path: m, aliases: [big, main]}, s: {path: s, aliases: tiny}}
profiles: {m: {engine: sim, model: m}, s: {engine: sim, model: s}}
services: {main: {profiles: [m, s], aliases: own}}
"""
    assert catalog(text).services[0].aliases == ("big", "own", "tiny")


def test_profiles_keep_their_order_of_preference() -> None:
    text = """
version: 1
models: {m: {path: m}}
profiles: {a: {engine: sim, model: m}, b: {engine: sim, model: m}}
services: {chat: {profiles: [b, a]}}
"""
    assert [profile.name for profile in catalog(text).services[0].profiles] == ["b", "a"]


def test_services_that_are_emptied_are_a_catalog_without_any() -> None:
    assert catalog(f"{ON_CPU}services: {{}}\n").services == ()


@pytest.mark.parametrize("empty", ["", "null", "~", "# {}"])
def test_nothing_below_services_is_no_wish_to_stop_everything(empty: str) -> None:
    (error,) = mistakes(f"{ON_CPU}services: {empty}\n")
    assert error.code == "catalog-empty"
    assert "`services: {}`" in (error.fix or "")


def test_a_service_may_have_no_replicas() -> None:
    assert service("replicas: 0").replicas == 0


@pytest.mark.parametrize(
    ("devices", "more"),
    [
        ("[h200-141g, a100-80g]", ""),
        ("[some-new-card-512g, a100-80g]", ""),
        ("mi300x-192g", ""),
        ("a100-80g", "allow_slow_path: quantization"),
        ("[t4-15g, a100-80g]", "allow_slow_path: [quantization]"),
    ],
)
def test_one_class_that_will_do_or_is_unknown_is_enough(devices: str, more: str) -> None:
    assert profile(f"devices: {devices}, quantization: fp8, {more}").quantization == "fp8"


def test_the_digest_is_of_the_meaning_and_not_of_the_text() -> None:
    plain = catalog(f"{ON_CPU}services:\n  chat: {{profiles: small, drain_timeout: 60}}\n")
    other = catalog(f"# a comment\n{ON_CPU}services:\n  chat:\n    drain_timeout: 1m\n    profiles: [small]\n")
    changed = catalog(f"{ON_CPU}services:\n  chat: {{profiles: small, drain_timeout: 61}}\n")
    assert plain == other
    assert plain.digest == other.digest
    assert plain.digest.startswith("sha256:")
    assert plain.digest != changed.digest
    assert digest(plain) == plain.digest


@pytest.mark.parametrize("listener", ["127.0.0.1:8081", "[::1]:8081", "localhost:8081", "127.8.8.8:8081"])
def test_an_admin_listener_that_only_the_host_reaches_needs_no_token(listener: str) -> None:
    assert not mistakes(f'version: 1\nservices: {{}}\ngateway: {{admin_listen: "{listener}"}}\n')


@pytest.mark.parametrize("ports", ["32768-40000", "60999-61010", "1024-61000", "40000-40001"])
def test_no_port_may_be_one_that_the_kernel_hands_out(ports: str) -> None:
    listeners = "gateway: {listen: h:70, admin_listen: localhost:71}"
    (error,) = mistakes(f"version: 1\nservices: {{}}\nfleet: {{port_range: {ports}}}\n{listeners}\n")
    assert error.code == "catalog-ports"


@pytest.mark.parametrize("ports", ["1024-1024", "1024-32767", "61000-65535"])
def test_all_other_ports_may_be_used(ports: str) -> None:
    listeners = "gateway: {listen: h:70, admin_listen: localhost:71}"
    assert not mistakes(f"version: 1\nservices: {{}}\nfleet: {{port_range: {ports}}}\n{listeners}\n")


@pytest.mark.parametrize("listener", ["10.0.0.5:8081", "[2001:db8::1]:8081", "gateway.example:8081"])
def test_an_admin_listener_that_others_reach_needs_a_token(listener: str) -> None:
    text = f'version: 1\nservices: {{}}\ngateway:\n  admin_listen: "{listener}"\n'
    (error,) = mistakes(text)
    assert error.code == "catalog-listener"
    assert not mistakes(f"{text}  admin_token_sha256: {'ab' * 32}\n")


def test_lists_without_an_order_of_their_own_are_sorted() -> None:
    services = "services:\n  a: {profiles: small, aliases: [z, y]}\n  b: {profiles: small}\n"
    found = catalog(f"{ON_CPU}{services}gateway: {{keys: {{k: {{sha256: {'ab' * 32}, services: [b, a]}}}}}}\n")
    assert found.gateway.keys[0].services == ("a", "b")
    assert found.services[0].aliases == ("y", "z")


def test_which_of_two_services_is_told_does_not_depend_on_their_order() -> None:
    first, second = "  a: {profiles: small, served_name: x}\n", "  b: {profiles: small, served_name: x}\n"
    told = [
        mistakes(f"{ON_CPU}services:\n{text}")[0].why.partition(" (")[0] for text in (first + second, second + first)
    ]
    assert told[0] == told[1]


def test_copies_of_a_model_share_the_devices_of_a_node() -> None:
    found = profile("devices: h200-141g, gpus: 8, data_parallel: 4")
    assert (found.gpus, found.tensor_parallel, found.pipeline_parallel, found.data_parallel) == (8, 2, 1, 4)
