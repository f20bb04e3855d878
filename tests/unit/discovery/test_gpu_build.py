# SPDX-License-Identifier: Apache-2.0
"""What is concluded about cards once a driver path has read them: classes, instances, owners."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import (
    DeviceProcess,
    ForeignEngine,
    Gpu,
    GpuFabric,
    MigInstance,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gpu_build
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.smi_list import ListedGpu, ListedInstance

CARD = Gpu(0, "GPU-a", name="NVIDIA A100-SXM4-80GB", memory_total_mib=81920, memory_used_mib=5)
OWN = "llmgw-chat.0.0.service"


def finish(card: Gpu, *listed: ListedGpu, owned: tuple[int, ...] = ()) -> Gpu:
    (found,) = gpu_build.finish([card], listed, {"GPU-a": "8.0"}, lambda pid: OWN if pid in owned else None)
    return found


def test_a_card_gets_class_form_and_capability() -> None:
    found = finish(CARD)
    assert (found.device_class, found.form_factor, found.compute_capability) == ("a100-80g", "SXM4", "8.0")
    assert found.unified_memory is False


def test_memory_that_is_the_hosts_is_told_by_the_product() -> None:
    found = finish(Gpu(0, "GPU-a", name="NVIDIA GB10"))
    assert (found.device_class, found.unified_memory, found.memory_total_mib) == ("gb10-unified", True, None)
    assert finish(Gpu(0, "GPU-a", name="NVIDIA A30")).unified_memory is None
    told = finish(Gpu(0, "GPU-a", name="NVIDIA Thor", memory_total_mib=125772))
    assert (told.device_class, told.unified_memory) == ("thor-123g", True)


def test_a_capability_that_the_path_told_itself_is_kept() -> None:
    told = replace(CARD, compute_capability="9.0")
    assert finish(told).compute_capability == "9.0"
    assert finish(replace(CARD, uuid="GPU-other")).compute_capability is None


def test_a_domain_counts_once_the_fabric_is_complete() -> None:
    stale = GpuFabric("In Progress", "Success", "0a0b0c0d-0000-4000-8000-000000000001", 7)
    assert finish(replace(CARD, fabric=stale)).fabric == GpuFabric("In Progress")
    complete = replace(stale, state="Completed")
    assert finish(replace(CARD, fabric=complete)).fabric == complete
    assert finish(CARD).fabric is None


def test_instances_are_joined_by_card_and_index_although_indexes_repeat() -> None:
    card = Gpu(
        1,
        "GPU-a",
        name="NVIDIA A100-SXM4-80GB",
        memory_total_mib=81920,
        mig_instances=(MigInstance(None, 0), MigInstance(None, 2)),
    )
    other = ListedGpu(0, "NVIDIA A100-SXM4-80GB", "GPU-b", (ListedInstance(0, "7g.80gb", "MIG-b0"),))
    own = ListedGpu(
        1,
        "NVIDIA A100-SXM4-80GB",
        "GPU-a",
        (ListedInstance(0, "3g.40gb", "MIG-a0"), ListedInstance(2, "1g.10gb+me", "MIG-a2")),
    )
    assert [(one.uuid, one.device_class) for one in finish(card, other, own).mig_instances] == [
        ("MIG-a0", "a100-80g-mig-3g.40gb"),
        ("MIG-a2", "a100-80g-mig-1g.10gb+me"),
    ]


def test_an_instance_that_no_list_names_stays_without_identity() -> None:
    card = contract.Gpu(0, "GPU-a", mig_instances=(MigInstance(None, 5),))
    (instance,) = finish(card, ListedGpu(0, "x", "GPU-a")).mig_instances
    assert (instance.uuid, instance.profile, instance.device_class) == (None, None, None)


def test_processes_are_owned_by_their_unit() -> None:
    card = Gpu(0, "GPU-a", processes=(DeviceProcess(5, "VLLM::EngineCore", 100), DeviceProcess(6, "python", 7)))
    assert [process.unit for process in finish(card, owned=(5,)).processes or ()] == [OWN, None]


def test_a_cgroup_names_its_unit_in_every_hierarchy() -> None:
    assert gpu_build.owning_unit(b"0::/system.slice/llmgw-chat.0.0.service\n") == OWN
    assert (
        gpu_build.owning_unit(b"3:memory:/\n1:name=systemd:/user.slice/app.slice/llmgw-chat.0.0.service/sub\n") == OWN
    )
    assert gpu_build.owning_unit(b"0::/system.slice/llmgw-gateway.service\n") is None
    assert gpu_build.owning_unit(b"0::/system.slice/not-llmgw-chat.0.0.service.d\n") is None
    assert gpu_build.owning_unit(None) is None


def test_foreign_engines_are_named_with_all_their_devices_and_others_are_not() -> None:
    engine = DeviceProcess(7, "VLLM::Worker_TP0", 100)
    own = DeviceProcess(8, "VLLM::Worker_TP0", 100, unit=OWN)
    cards = [
        Gpu(0, "GPU-a", processes=(engine, own, DeviceProcess(9, "/usr/lib/xorg/Xorg", 4))),
        Gpu(1, "GPU-b", processes=(engine,)),
        Gpu(2, "GPU-c", mig_instances=(MigInstance("MIG-c0", 0, processes=(DeviceProcess(5, "ollama", 1),)),)),
    ]
    assert gpu_build.foreign_engines(cards) == (
        ForeignEngine(5, "ollama", ("MIG-c0",)),
        ForeignEngine(7, "VLLM::Worker_TP0", ("GPU-a", "GPU-b")),
    )
