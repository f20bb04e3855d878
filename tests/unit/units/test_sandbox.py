# SPDX-License-Identifier: Apache-2.0
"""Limits, devices, folders and binding of single units; golden/ has whole ones."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from llmgw.errors import LlmgwError
from llmgw.model.node import NodeSettings
from tests.support.fleets import profile
from tests.unit.units.unit_cases import HCAS, USER, Case, alone, cards, cases, gpus, group, machine, wide

CARDS = {"char-nvidia", "char-nvidia-frontend", "char-nvidiactl", "char-nvidia-uvm"}
RDMA = {"char-infiniband_verbs", "/dev/infiniband/rdma_cm", "char-gdrdrv"}


def values(case: Case, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", case.unit.text, re.MULTILINE)


def devices(case: Case) -> set[str]:
    return {value.split(" ")[0] for value in values(case, "DeviceAllow")}


@pytest.mark.parametrize(
    ("name", "granted"),
    [
        ("vllm-cpu", set()),
        ("vllm-one-gpu", CARDS),
        ("vllm-on-a-mig-instance", CARDS | {"char-nvidia-caps"}),
        ("vllm-domain-leader", CARDS | {"char-nvidia-caps-imex-channels"}),
        ("vllm-infiniband-follower", CARDS | RDMA),
        ("sglang-roce-leader", CARDS | RDMA),
        ("vllm-that-moves-its-cache", CARDS | RDMA),
        ("llama-by-vulkan", CARDS | {"char-drm", "char-nvidia-modeset"}),
    ],
)
def test_a_unit_may_open_the_devices_it_was_given_and_no_others(name: str, granted: set[str]) -> None:
    case = cases()[name]
    assert devices(case) == granted
    assert values(case, "PrivateDevices") == ([] if granted else ["yes"])
    assert values(case, "DevicePolicy") == (["closed"] if granted else [])


def test_cards_are_there_before_an_engine_that_has_some() -> None:
    case = cases()["vllm-domain-leader"]
    assert "nvidia-imex.service" in values(case, "After")[1]
    assert values(case, "ExecStartPre") == [f"-+/usr/bin/nvidia-modprobe {' '.join(f'-c {n}' for n in range(8))} -u"]
    assert "nvidia" not in cases()["vllm-cpu"].unit.text


def test_memory_is_locked_without_limit_for_cards_and_adapters_and_where_it_is_asked_for() -> None:
    assert values(cases()["vllm-one-gpu"], "LimitMEMLOCK") == ["infinity"]
    assert values(cases()["llama-that-locks-its-weights"], "LimitMEMLOCK") == ["infinity"]
    assert values(cases()["llama-cpu"], "LimitMEMLOCK") == []


def test_memory_is_limited_only_where_the_profile_says_so() -> None:
    assert values(cases()["llama-with-a-memory-limit"], "MemoryMax") == [str(24 * 10**9)]
    assert values(cases()["llama-cpu"], "MemoryMax") == []


@pytest.mark.parametrize(
    ("case", "bound"),
    [
        (alone(gpus("vllm", 2), devices=cards(2), numa_node=0), ["0"]),
        (alone(gpus("vllm", 2), devices=cards(2)), []),
        (alone(gpus("vllm", 2, bind_numa=False), devices=cards(2), numa_node=0), []),
        (alone(profile(), numa_node=0), []),
        (alone(gpus("vllm", 2), machine(gpus=2, systemd_version=243), cards(2), numa_node=0), []),
        (alone(gpus("vllm", 2), machine(gpus=2, settings=USER), cards(2), numa_node=0), ["0"]),
    ],
    ids=["known", "unknown", "not wanted", "no card", "too old a systemd", "a user's manager"],
)
def test_a_member_is_kept_on_the_numa_node_of_its_cards(case: Case, bound: list[str]) -> None:
    assert values(case, "NUMAMask") == bound
    assert values(case, "CPUAffinity") == ["numa"] * len(bound)
    assert values(case, "NUMAPolicy") == ["preferred"] * len(bound)


def test_restarts_grow_apart_where_systemd_can() -> None:
    assert values(cases()["sim-under-a-newer-systemd"], "RestartMaxDelaySec") == ["120"]
    assert values(cases()["sim-system"], "RestartMaxDelaySec") == []
    assert values(alone(profile(), machine(systemd_version=None)), "RestartSteps") == []


def test_an_engine_that_dies_late_in_loading_is_given_up_all_the_same() -> None:
    (window,) = values(alone(profile(ready_timeout_s=3600)), "StartLimitIntervalSec")
    assert int(window) >= 5 * 3600
    assert values(alone(profile(ready_timeout_s=30)), "StartLimitIntervalSec") == ["600"]


def test_the_profiles_own_folders_are_writable_and_its_variables_hold() -> None:
    case = alone(
        profile(env={"HF_HOME": "/data/hf home", "HOME": "/data/100%"}, args=("--download-dir=/data/weights",))
    )
    assert values(case, "ReadWritePaths") == ["-/data/100%%", '"-/data/hf home"', "-/data/weights"]
    assert [value for value in values(case, "Environment") if value.startswith("HOME=")] == ["HOME=/data/100%%"]


def test_a_hub_cache_that_is_only_read_stays_read_only() -> None:
    read = {"HF_HUB_CACHE": "/srv/models", "HF_HUB_OFFLINE": "1"}
    assert values(alone(profile(env=read)), "ReadWritePaths") == []
    assert values(alone(profile(env=read | {"HF_HUB_OFFLINE": "0"})), "ReadWritePaths") == ["-/srv/models"]


def test_a_folder_that_cannot_be_written_into_a_unit_is_an_error() -> None:
    with pytest.raises(LlmgwError, match="cannot grant"):
        _ = alone(profile(env={"HF_HOME": '/data/"x"'})).unit


def test_a_command_or_a_variable_that_names_a_file_below_tmp_sees_the_real_one() -> None:
    for named in (profile(args=("/tmp/x",)), profile(env={"CUDA_MPS_PIPE_DIRECTORY": "/tmp/mps"})):  # noqa: S108
        assert values(alone(named), "PrivateTmp") == []
        assert "/tmp /var/tmp" in values(alone(named), "ReadWritePaths")  # noqa: S108
    assert values(alone(profile()), "PrivateTmp") == ["yes"]


def test_a_users_manager_is_asked_for_nothing_that_it_cannot_do() -> None:
    text = alone(profile(), machine(settings=USER)).unit.text
    assert not re.search(
        r"^(Protect|Private|Device|Cache|IPAddress|Capability|RemoveIPC|User=|ReadWrite)", text, re.MULTILINE
    )
    assert "NoNewPrivileges=yes" in text


def test_a_users_manager_runs_units_as_its_user_once_it_is_there() -> None:
    text = alone(profile(), machine(settings=replace(USER, engine_user="llmgw"))).unit.text
    assert "User=" not in text
    assert re.findall(r"^(?:After|Wants|WantedBy)=.*$", text, re.MULTILINE) == [
        "After=default.target",
        "WantedBy=default.target",
    ]


def test_under_a_users_manager_cuda_can_make_its_device_nodes() -> None:
    text = alone(gpus("vllm", 1), machine(gpus=1, settings=USER), cards(1)).unit.text
    assert not re.search(r"^(NoNewPrivileges|Restrict|SystemCall|LockPersonality)", text, re.MULTILINE)


def test_every_unit_has_a_name_of_its_own_in_the_journal() -> None:
    assert values(group(wide("vllm"), 1, hcas=HCAS), "SyslogIdentifier") == ["llmgw-chat.0.1"]


def test_an_unknown_node_gets_a_whole_unit() -> None:
    unseen = replace(machine(settings=NodeSettings()), facts=None, devices=None)
    text = alone(gpus("vllm", 1), unseen, cards(1)).unit.text
    assert "nvidia-modprobe -c 0 -u\n" in text
    assert "ProtectSystem=strict" in text
