# SPDX-License-Identifier: Apache-2.0
"""The topology of cards: from nvidia-smi, from the kernel where that is silent, and what is wrong with it."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding, Gpu, NicPath, NvlinkPeer
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import topology, topology_findings
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Result
from tests.support.fake_host import FakeHost
from tests.support.smi_texts import uuid
from tests.support.topo_texts import Box, p2p, printed, uniform

MATRIX = "nvidia-smi topo -m"
LINKS = "nvidia-smi nvlink -s"
FAILED = Result(255, "Failed to run topology matrix\n", "")


def card(number: int, **facts: Any) -> Gpu:
    known: dict[str, Any] = {"name": "NVIDIA H100 80GB HBM3", "pci_address": address(number), "form_factor": "SXM5"}
    return Gpu(number, uuid(number), **{**known, **facts})


def address(number: int) -> str:
    return f"0000:{0x10 + number:02x}:00.0"


def cards(count: int, **facts: Any) -> tuple[Gpu, ...]:
    return tuple(card(number, **facts) for number in range(count))


def links(*active: int | None, total: int = 18) -> str:
    """What `nvlink -s` prints of cards with so many active links; None is a card in MIG mode."""
    text = ""
    for number, count in enumerate(active):
        text += f"GPU {number}: NVIDIA H100 80GB HBM3 (UUID: {uuid(number)})\n"
        if count is None:
            text += "Not supported for Devices in MIG mode\n"
            continue
        states = ["26.562 GB/s"] * count + ["<inactive>"] * (total - count)
        text += "".join(f"\t Link {link}: {state}\n" for link, state in enumerate(states))
    return text


def local(number: int, node: str = "1\n", cpus: str = "8-15\n") -> dict[str, str | bytes]:
    folder = f"/sys/bus/pci/devices/{address(number)}"
    return {f"{folder}/numa_node": node, f"{folder}/local_cpulist": cpus}


def look(gpus: tuple[Gpu, ...], host: FakeHost) -> tuple[tuple[Gpu, ...], tuple[Finding, ...]]:
    found = topology.read_topology(host, gpus, 30)
    done = topology.with_topology(gpus, found)
    return done, topology_findings.judge(done, found)


def codes(findings: tuple[Finding, ...]) -> list[tuple[str, str, str | None]]:
    return [(one.code, one.severity, one.subject) for one in findings]


def test_a_card_gets_all_that_the_matrix_and_the_links_tell() -> None:
    adapters = ("mlx5_10", "mlx5_1")
    words = [["X", "NV18", "PXB", "SYS"], ["NV18", "X", "NODE", "PIX"]]
    box = Box(words, adapters, cpus=["0-71", "72-143"], numa=["0", "1"], card_numa=["1", "9"])
    done, findings = look(cards(2), FakeHost(commands={MATRIX: printed(box), LINKS: links(18, 18)}))
    assert done[1] == card(
        1,
        numa_node=1,
        cpu_affinity="72-143",
        memory_numa_node=9,
        nvlink_peers=(NvlinkPeer(uuid(0), 18),),
        nic_paths=(NicPath("mlx5_10", "NODE"), NicPath("mlx5_1", "PIX")),
        nvlink_links=18,
        nvlink_links_active=18,
        nvlink_gbps=26.562,
    )
    assert findings == ()


def test_a_machine_without_cards_is_asked_nothing() -> None:
    host = FakeHost()
    assert look((), host) == ((), ())
    assert host.ran == []


def test_what_another_path_gave_is_kept() -> None:
    known = card(
        0,
        numa_node=7,
        cpu_affinity="1",
        memory_numa_node=3,
        nvlink_peers=(),
        nic_paths=(),
        nvlink_links=4,
        nvlink_links_active=3,
        nvlink_gbps=25.0,
    )
    gpus = (known, card(1, nvlink_links=4, nvlink_links_active=4))
    box = Box(uniform(2, "NV18", ("mlx5_0",)), ("mlx5_0",), card_numa=["1", "1"])
    host = FakeHost(commands={MATRIX: printed(box), LINKS: links(18, 18)})
    done, _findings = look(gpus, host)
    assert done[0] == known
    assert done[1].nvlink_peers == (NvlinkPeer(uuid(0), 18),)
    assert LINKS not in host.ran, "links that are known are not asked for"


def test_a_range_of_nodes_is_no_node() -> None:
    done, _findings = look(cards(1), FakeHost(commands={MATRIX: printed(Box(uniform(1), numa=["0-1"], cpus=["0-63"]))}))
    assert (done[0].numa_node, done[0].cpu_affinity) == (None, "0-63")


@pytest.mark.parametrize("year", [2017, 2021, 2024])
def test_adapters_have_their_names_in_both_layouts_and_the_words_of_today(year: int) -> None:
    box = Box(uniform(1, "X", ("mlx5_0", "rocep1s0"), "SOC"), ("mlx5_0", "rocep1s0"), year=year)
    done, _findings = look(cards(1), FakeHost(commands={MATRIX: printed(box)}))
    assert done[0].nic_paths == (NicPath("mlx5_0", "SYS"), NicPath("rocep1s0", "SYS"))


def test_adapters_without_names_are_unknown_and_that_is_told() -> None:
    text = printed(Box(uniform(2, "PHB", ("mlx5_0",)), ("mlx5_0",))).partition("NIC Legend")[0]
    done, findings = look(cards(2, form_factor=None), FakeHost(commands={MATRIX: text}))
    assert [gpu.nic_paths for gpu in done] == [None, None]
    assert codes(findings) == [("topology-adapters", "info", None)]


def test_adapters_that_the_tool_leaves_out_are_counted() -> None:
    text = "76 NICs found in the topology, only displaying 56 in the matrix.\n"
    text += printed(Box(uniform(1, "X", ("mlx5_0",)), ("mlx5_0",)))
    _done, findings = look(cards(1), FakeHost(commands={MATRIX: text}))
    assert codes(findings) == [("topology-adapters", "info", None)]
    assert "1 of 76" in findings[0].message


def test_a_card_without_adapters_around_it_has_none() -> None:
    done, _findings = look(cards(1), FakeHost(commands={MATRIX: printed(Box(uniform(1)))}))
    assert done[0].nic_paths == ()


def test_cells_that_say_nothing_are_filled_by_the_kernel_and_that_is_told() -> None:
    box = Box(uniform(2, "PHB"), cpus=["0-7", ""], numa=["0", "N/A"])
    done, findings = look(cards(2), FakeHost({**local(0), **local(1)}, commands={MATRIX: printed(box)}))
    assert [(gpu.numa_node, gpu.cpu_affinity) for gpu in done] == [(0, "0-7"), (1, "8-15")]
    assert codes(findings) == [("topology-from-kernel", "info", None)]
    assert "card 1:" in findings[0].message


@pytest.mark.parametrize("node", ["-1\n", "", "x", "1" * 40])
def test_a_node_that_the_kernel_does_not_know_is_unknown(node: str) -> None:
    box = Box(uniform(1), cpus=["0-7"], numa=["N/A"])
    done, findings = look(cards(1), FakeHost(local(0, node), commands={MATRIX: printed(box)}))
    assert (done[0].numa_node, done[0].cpu_affinity) == (None, "0-7")
    assert findings == ()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (FAILED, "exit status 255"),
        (Result(-9, "\tGPU0\n", "", timed_out=True), "did not end in time"),
        (Result(127, "", "nvidia-smi: command not found"), "is not installed"),
        (Result(0, "nonsense\n", ""), "no header of GPU columns"),
        (Result(0, "", ""), "no header of GPU columns"),
        (Result(0, p2p(2), ""), "found one of 'topo -p2p'"),
        (Result(1, printed(Box(uniform(2))), ""), "exit status 1"),
    ],
)
def test_without_a_matrix_the_kernel_tells_nodes_and_the_rest_is_unknown(answer: Result, why: str) -> None:
    host = FakeHost({**local(0, "0"), **local(1)}, commands={MATRIX: answer, LINKS: links(0, 0)})
    done, findings = look(cards(2, form_factor="PCIe"), host)
    assert [(gpu.numa_node, gpu.cpu_affinity, gpu.nvlink_peers, gpu.nic_paths) for gpu in done] == [
        (0, "8-15", None, None),
        (1, "8-15", None, None),
    ]
    assert codes(findings) == [("topology-unknown", "warn", None)]
    assert why in findings[0].message
    assert "by index" in findings[0].message
    assert "kernel" in findings[0].message


def test_a_failing_matrix_names_the_device_that_is_known_to_break_it() -> None:
    _done, findings = look(cards(2), FakeHost(commands={MATRIX: FAILED}))
    assert "software RDMA" in str(findings[0].remedy)
    assert findings[0].evidence == ("Failed to run topology matrix",)


@pytest.mark.parametrize("gpus", [cards(1), cards(2, nvlink_peers=())])
def test_a_topology_that_placement_can_do_without_is_a_note(gpus: tuple[Gpu, ...]) -> None:
    _done, findings = look(gpus, FakeHost(commands={MATRIX: FAILED}))
    assert codes(findings) == [("topology-unknown", "info", None)]


def test_a_budget_that_is_used_up_asks_nothing_more() -> None:
    host = FakeHost(commands={MATRIX: printed(Box(uniform(1)))})
    found = topology.read_topology(host, cards(1), 0)
    assert host.ran == []
    assert found.failure is not None


def test_links_are_asked_for_only_where_there_may_be_some() -> None:
    for gpus, text, asked in (
        (cards(2, form_factor="PCIe"), printed(Box(uniform(2, "PHB"))), False),
        (cards(2), printed(Box(uniform(2, "PHB"))), True),
        (cards(2, form_factor="PCIe"), printed(Box(uniform(2, "NV12"))), True),
        (cards(1, form_factor="PCIe"), printed(Box(uniform(1))), True),
        (cards(2, form_factor=None), "", True),
    ):
        host = FakeHost(commands={MATRIX: text})
        look(gpus, host)
        assert (LINKS in host.ran) is asked, text


def test_links_belong_to_the_card_of_their_uuid() -> None:
    text = links(18, 17).replace(uuid(0), "other").replace(uuid(1), uuid(0)).replace("other", uuid(1))
    done, _findings = look(cards(2), FakeHost(commands={MATRIX: printed(Box(uniform(2))), LINKS: text}))
    assert [gpu.nvlink_links_active for gpu in done] == [17, 18]


def test_a_card_without_nvlink_has_no_links_and_one_whose_links_are_not_listed_an_unknown_number() -> None:
    for message, total in (
        ("Device does not have or support Nvlink", 0),
        ("NVML: Unable to retrieve Nvlink information as all links are inActive", None),
    ):
        host = FakeHost(commands={MATRIX: printed(Box(uniform(1))), LINKS: links(0, total=0) + message})
        done, _findings = look(cards(1), host)
        assert (done[0].nvlink_links, done[0].nvlink_links_active, done[0].nvlink_gbps) == (total, 0, None)


def test_links_of_a_card_in_mig_mode_are_unknown_not_none() -> None:
    gpus = (card(0, mig_mode=True), card(1), card(2))
    words = [["X", "SYS", "SYS"], ["SYS", "X", "NV18"], ["SYS", "NV18", "X"]]
    done, findings = look(gpus, FakeHost(commands={MATRIX: printed(Box(words)), LINKS: links(None, 18, 18)}))
    assert (done[0].nvlink_links, done[0].nvlink_links_active, done[0].nvlink_peers) == (None, None, None)
    assert done[1].nvlink_peers == (NvlinkPeer(uuid(2), 18),)
    assert (done[1].nvlink_links, done[1].nvlink_links_active) == (18, 18)
    assert findings == ()


def test_a_cut_matrix_tells_what_its_rows_tell() -> None:
    text = printed(Box(uniform(3, "NV4"), cpus=["0-7", "8-15", "16-23"]))
    text = text[: text.index("GPU1\tNV4")]
    done, findings = look(cards(3), FakeHost(commands={MATRIX: text}))
    assert [gpu.cpu_affinity for gpu in done] == ["0-7", None, None]
    assert [gpu.nvlink_peers is None for gpu in done] == [False, True, True]
    assert codes(findings) == [("topology-mismatch", "warn", None)]
    assert "cards 1, 2" in findings[0].message


def test_a_lost_card_does_not_shift_the_rows_of_the_others() -> None:
    gpus = (card(0), replace(card(1), uuid=None), card(2))
    box = Box(uniform(2, "NV4"), cpus=["0-7", "16-23"])
    done, findings = look(gpus, FakeHost(commands={MATRIX: printed(box)}))
    assert [gpu.cpu_affinity for gpu in done] == ["0-7", None, "16-23"]
    assert done[0].nvlink_peers == (NvlinkPeer(uuid(2), 4),)
    assert codes(findings) == [("topology-mismatch", "warn", None)]


def test_a_matrix_of_fewer_cards_is_of_none_for_sure() -> None:
    done, findings = look(cards(3), FakeHost(commands={MATRIX: printed(Box(uniform(2, "NV4")))}))
    assert [gpu.cpu_affinity for gpu in done] == [None, None, None]
    assert codes(findings) == [("topology-mismatch", "warn", None)]


def test_a_matrix_of_more_cards_is_read_by_index() -> None:
    done, findings = look(cards(2), FakeHost(commands={MATRIX: printed(Box(uniform(3, "NV4")))}))
    assert [gpu.cpu_affinity for gpu in done] == ["0-7", "0-7"]
    assert done[0].nvlink_peers == (NvlinkPeer(uuid(1), 4),), "a card without facts cannot be named"
    assert codes(findings) == [("topology-mismatch", "warn", None)]


@pytest.mark.parametrize(
    ("active", "form_factor", "expected"),
    [
        ((18, 18, 18), "SXM5", []),
        ((18, 16, 18), "SXM5", [("nvlink-down", "warn", uuid(1))]),
        ((18, 0, 18), "SXM5", [("nvlink-down", "warn", uuid(1))]),
        ((12, 0, 12), "PCIe", [("nvlink-down", "info", uuid(1))]),
        ((12, 8, 12), "PCIe", [("nvlink-down", "warn", uuid(1))]),
        ((0, 0, 0), "PCIe", []),
        ((0, 0, 0), "SXM5", [("nvlink-none", "info", None)]),
    ],
)
def test_a_card_whose_siblings_have_more_links_is_named(
    active: tuple[int, ...], form_factor: str, expected: list[tuple[str, str, str | None]]
) -> None:
    host = FakeHost(commands={MATRIX: printed(Box(uniform(3, "NV12"))), LINKS: links(*active)})
    done, findings = look(cards(3, form_factor=form_factor), host)
    assert [gpu.nvlink_links_active for gpu in done] == list(active)
    assert codes(findings) == expected
    assert all(one.remedy for one in findings)


def test_another_product_beside_it_is_no_sibling() -> None:
    gpus = (card(0, nvlink_links_active=18), card(1, name="NVIDIA L40S", nvlink_links_active=0, form_factor=None))
    assert list(topology_findings.links_down(gpus)) == []


def test_no_finding_about_topology_blocks_a_card() -> None:
    for text in ("", printed(Box(uniform(1))), printed(Box(uniform(2), numa=["N/A"] * 2))):
        host = FakeHost(local(0), commands={MATRIX: text, LINKS: links(18, 3)})
        _done, findings = look(cards(2), host)
        assert findings
        assert "block" not in {one.severity for one in findings}


def test_without_a_topology_cards_stay_as_they_are() -> None:
    assert topology.with_topology(cards(2), None) == cards(2)
    assert topology_findings.judge(cards(2), None) == ()


def test_every_fact_of_the_topology_is_carried_by_the_card() -> None:
    box = Box(uniform(2, "NV18", ("mlx5_0",)), ("mlx5_0",), card_numa=["1", "9"])
    done, _findings = look(cards(2), FakeHost(commands={MATRIX: printed(box), LINKS: links(18, 18)}))
    bare = card(0)
    changed = {one.name for one in dataclasses.fields(Gpu) if getattr(bare, one.name) != getattr(done[0], one.name)}
    assert changed == {
        "numa_node",
        "cpu_affinity",
        "memory_numa_node",
        "nvlink_peers",
        "nic_paths",
        "nvlink_links",
        "nvlink_links_active",
        "nvlink_gbps",
    }
