# SPDX-License-Identifier: Apache-2.0
"""What NVML's numbers say: facts of cards, refusals, and any other text is unreadable."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import (
    DeviceProcess,
    Ecc,
    Gpu,
    GpuFabric,
    NvlinkPeer,
    Remap,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import nvml, nvml_dump, nvml_words
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from tests.support.fake_pynvml import FakePynvml
from tests.support.fake_pynvml_machine import Card, Fabric, Instance, Link, Machine, Process

RACK = "0a0b0c0d-0102-0304-0506-0708090a0b0c"


def read(*cards: Card, **library: Any) -> nvml.Report:
    report = nvml.read(json.dumps(nvml_dump.dump(FakePynvml(Machine(cards), **library))))
    assert isinstance(report, nvml.Report)
    return report


def gpu(card: Card, **library: Any) -> Gpu:
    (found,) = read(card, **library).gpus
    return found


def test_a_card_is_told_in_the_forms_of_facts() -> None:
    card = Card(
        3,
        used_mib=70000,
        utilization=99,
        draw_mw=(432_214, 444_720),
        reasons=0x40 | 0x1,
        widths=(8, 16),
        volatile=(1, 2, 3, 4, 5),
        aggregate=(10, 20, 30, 40, 50),
        threshold=True,
        rows=(1, 2, True, False),
        pages=(3, 4, True),
        recovery=4,
        processes=(Process(9, "MC", 700, "VLLM::Worker"), Process(7, "CG", None, None)),
    )
    assert gpu(card) == Gpu(
        index=0,
        uuid=card.uuid,
        name="NVIDIA H100 80GB HBM3",
        pci_address="0000:13:00.0",
        serial="1650000000007",
        compute_capability="9.0",
        memory_total_mib=81559,
        memory_used_mib=70000,
        memory_reserved_mib=479,
        utilization_percent=99,
        temperature_c=31,
        power_draw_w=432.21,
        power_limit_w=700.0,
        persistence_mode=True,
        pcie_width=8,
        pcie_width_max=16,
        throttle_reasons=("gpu_idle", "hw_thermal_slowdown"),
        recovery_action="Drain and Reset",
        ecc=Ecc(
            enabled=True,
            corrected_volatile=5,
            uncorrected_volatile=10,
            corrected_aggregate=50,
            uncorrected_aggregate=100,
            sram_threshold_exceeded=True,
        ),
        remap=Remap(1, 2, pending=True, failed=False, retired_pages=7, retired_pending=True),
        processes=(DeviceProcess(7, None, None, kind="C+G"), DeviceProcess(9, "VLLM::Worker", 700, kind="M+C")),
        mig_mode=False,
        mig_pending=False,
    )


def test_versions_are_those_of_the_driver() -> None:
    report = nvml.read(json.dumps(nvml_dump.dump(FakePynvml(Machine((), "570.86.15", 12080)))))
    assert report == nvml.Report("570.86.15", "12.8", ())
    later = nvml.read(json.dumps(nvml_dump.dump(FakePynvml(Machine((), "700.1", 13110)))))
    assert later == nvml.Report("700.1", "13.11", ())


def edited(*cards: Card, **readings: Any) -> nvml.Report:
    """The cards, with other raw readings of the first."""
    document = nvml_dump.dump(FakePynvml(Machine(cards)))
    document["cards"][0].update(readings)
    report = nvml.read(json.dumps(document))
    assert isinstance(report, nvml.Report)
    return report


def test_memory_is_told_in_the_nearest_mib() -> None:
    (card,) = edited(Card(), memory={"total": 85_198_045_184, "reserved": 3 << 19, "used": (1 << 20) - 1}).gpus
    assert (card.memory_total_mib, card.memory_reserved_mib, card.memory_used_mib) == (81251, 2, 1)


def test_the_first_form_of_memory_counts_what_is_reserved_as_used() -> None:
    card = gpu(Card(used_mib=4), without=["nvmlMemory_v2"])
    assert (card.memory_total_mib, card.memory_used_mib, card.memory_reserved_mib) == (81559, 483, None)


def test_memory_that_is_the_hosts_is_unknown_and_never_zero() -> None:
    card = gpu(Card(name="NVIDIA GB10", total_mib=None, limit_mw=None))
    assert (card.memory_total_mib, card.memory_used_mib, card.memory_reserved_mib) == (None, None, None)
    assert card.power_limit_w is None


def test_the_draw_is_the_average_before_the_instant_before_what_old_drivers_tell() -> None:
    assert gpu(Card(draw_mw=(1000, 2000))).power_draw_w == 1.0
    assert gpu(Card(draw_mw=(None, 2000))).power_draw_w == 2.0
    assert gpu(Card(draw_mw=(1000, 2000)), unknown=["nvmlDeviceGetFieldValues"]).power_draw_w == 2.0


@pytest.mark.parametrize(
    ("recovery", "flags", "expected"),
    [
        (0, (1, 1), "None"),
        (1, None, "Reset"),
        (5, None, "Recover IMEX Domain"),
        (7, None, "System Reboot"),
        (8, None, "Action 8"),
        (None, (1, 1), "Reset"),
        (None, (0, 1), "Drain and Reset"),
        (None, (0, 0), None),
        (None, None, None),
    ],
)
def test_the_recovery_action_is_a_word_and_an_unknown_one_is_no_none(
    recovery: int | None, flags: tuple[int, int] | None, expected: str | None
) -> None:
    assert gpu(Card(recovery=recovery, flags=flags)).recovery_action == expected


# --- MIG ---

CARVED = Card(
    name="NVIDIA A100-SXM4-80GB",
    mig=(True, True),
    utilization=None,
    instances=(Instance(0, (1, 0), "3g.40gb", 40192, 26, 42, errors=3), Instance(4, (9, 1), errors=None)),
    processes=(Process(8, place=(9, 1)), Process(5, place=(1, 0)), Process(6, place=(2, 0))),
)


def test_instances_have_identity_profile_memory_errors_and_their_own_processes() -> None:
    card = gpu(CARVED)
    first, second = card.mig_instances
    assert (first.uuid, first.index, first.gpu_instance_id, first.compute_instance_id) == (
        CARVED.instances[0].uuid(0),
        0,
        1,
        0,
    )
    assert (first.profile, first.memory_total_mib, first.memory_used_mib, first.multiprocessors) == (
        "3g.40gb",
        40192,
        26,
        42,
    )
    assert (first.ecc, second.ecc) == (Ecc(uncorrected_volatile=3), None)
    assert [[one.pid for one in each.processes or ()] for each in card.mig_instances] == [[5], [8]]
    assert [one.pid for one in card.processes or ()] == [6], "in an instance that is not listed"
    assert (card.mig_mode, card.mig_pending, card.utilization_percent) == (True, True, None)


def test_instances_tell_their_processes_where_the_card_refuses() -> None:
    (card,) = edited(CARVED, processes={"C": None, "G": None, "M": None}).gpus
    assert [[one.pid for one in each.processes or ()] for each in card.mig_instances] == [[5], [8]]
    assert card.processes is None, "the card itself told nothing"
    devices = nvml_dump.dump(FakePynvml(Machine((CARVED,))))["cards"][0]["mig_devices"]
    devices[1]["processes"] = {"C": None, "G": None, "M": None}
    (card,) = edited(CARVED, mig_devices=devices, processes={"C": None, "G": None, "M": None}).gpus
    assert [each.processes is None for each in card.mig_instances] == [False, True]


def test_a_process_in_an_instances_own_list_is_in_that_instance_whatever_it_says() -> None:
    document = nvml_dump.dump(FakePynvml(Machine((CARVED,))))
    devices = document["cards"][0]["mig_devices"]
    devices[0]["processes"]["C"] = [{"pid": 5, "used": 0, "gpu_instance": 0xFFFFFFFF, "compute_instance": 0xFFFFFFFF}]
    (card,) = edited(CARVED, mig_devices=devices, processes={"C": [], "G": [], "M": []}).gpus
    assert [one.pid for one in card.mig_instances[0].processes or ()] == [5]


def test_lists_that_say_what_cannot_be_are_no_lists() -> None:
    assert gpu(Card(processes=(Process(7, used_mib=99_999_999),))).processes is None
    assert gpu(Card(processes=(Process(0),))).processes is None
    assert gpu(Card(total_mib=None, processes=(Process(7, used_mib=99_999),))).processes is not None


@pytest.mark.parametrize(
    ("library", "why"),
    [
        ({"failing": {"nvmlDeviceGetMigDeviceHandleByIndex": 4}}, "Insufficient Permissions"),
        ({"failing": {"nvmlDeviceGetMaxMigDeviceCount": 999}}, "Unknown Error"),
        ({"without": ["nvmlDeviceGetMaxMigDeviceCount"]}, "no count of them"),
    ],
)
def test_instances_that_are_not_listed_are_not_taken_for_none(library: dict[str, Any], why: str) -> None:
    assert read(Card(0), replace(CARVED, number=1), **library).unlisted == {1: why}
    assert read(Card(0), replace(CARVED, number=1, instances=())).unlisted == {}


# --- the fabric ---


def test_health_is_told_by_fields_of_which_one_is_true_and_two_is_false() -> None:
    well = gpu(Card(fabric=Fabric(cluster=RACK, clique=7, mask=0b1010101010, summary=1))).fabric
    assert well == GpuFabric(
        state="Completed",
        status="Success",
        cluster_uuid=RACK,
        clique_id=7,
        health_summary="Healthy",
        bandwidth="Full",
        route_recovery=False,
        route_unhealthy=False,
        access_timeout_recovery=False,
        incorrect_configuration="Incorrect SystemGuid",
    )
    bad = gpu(Card(fabric=Fabric(mask=0b0101010101, summary=2))).fabric
    assert bad is not None
    assert (bad.health_summary, bad.bandwidth, bad.route_recovery, bad.route_unhealthy) == (
        "Unhealthy",
        "Degraded",
        True,
        True,
    )
    assert (bad.access_timeout_recovery, bad.incorrect_configuration) == (True, None)


def test_a_driver_without_health_tells_none() -> None:
    for fabric in (Fabric(mask=0), Fabric(mask=0b01, summary=0)):
        found = gpu(Card(fabric=fabric)).fabric
        assert found == GpuFabric("Completed", "Success", "00000000-0000-0000-0000-000000000000", 0)
    old = gpu(Card(fabric=Fabric(mask=0b01, summary=None))).fabric
    assert old is not None
    assert (old.bandwidth, old.health_summary) == ("Degraded", None)


def test_a_card_without_a_fabric_has_none() -> None:
    assert gpu(Card(fabric=None)).fabric is None
    assert gpu(Card(fabric=Fabric(state=0))).fabric is None


def test_numbers_of_the_future_keep_their_number() -> None:
    assert (nvml_words.error(77), nvml_words.fabric_state(9), nvml_words.health_summary(9)) == (
        "Error 77",
        "State 9",
        "Summary 9",
    )
    assert nvml_words.misconfiguration(0xF00) == "Configuration 15"
    assert nvml_words.clock_reasons(0x200 | 0x4) == ("sw_power_cap",)


# --- lost cards ---


def test_what_nvml_says_of_a_card_that_it_cannot_talk_to() -> None:
    assert read(Card(0, lost=15), Card(1)).lost == {0: "GPU is lost"}
    assert read(Card(0), Card(1, lost=4)).lost == {1: "Insufficient Permissions"}
    assert read(Card(0, lost_later=True)).lost == {0: "GPU is lost"}
    assert read(Card(0), failing={"nvmlDeviceGetUUID": 999}).lost == {0: "Unknown Error"}
    assert read(Card(0), failing={"nvmlDeviceGetTemperatureV": 16}).lost == {0: "GPU requires reset"}
    assert read(Card(0), failing={"nvmlDeviceGetTemperatureV": 999}).lost == {}


# --- links and places ---


def test_peers_are_told_where_nvml_knows_both_ends() -> None:
    bridge = read(Card(0, links=(Link(card=1), Link(card=1))), Card(1, links=(Link(card=0), Link(active=False))))
    assert bridge.gpus[0].nvlink_peers == (NvlinkPeer(Card(1).uuid, 2),)
    assert (bridge.gpus[1].nvlink_links, bridge.gpus[1].nvlink_links_active, bridge.gpus[1].nvlink_gbps) == (
        2,
        1,
        26.562,
    )
    uneven = gpu(Card(links=(Link(switch=True), Link(switch=True, mbps=25781))))
    assert uneven.nvlink_gbps == 25.781
    nameless = edited(Card(0), Card(1, links=(Link(card=0),)), uuid=None)
    assert nameless.gpus[1].nvlink_peers == ()
    switched = read(
        *(Card(number, links=(Link(switch=True),) * (18 - number)) for number in range(3)), Card(3, links=())
    )
    assert switched.gpus[0].nvlink_peers == (NvlinkPeer(Card(1).uuid, 17), NvlinkPeer(Card(2).uuid, 16))
    assert (switched.gpus[3].nvlink_peers, switched.gpus[3].nvlink_links) == ((), 0)


def test_what_nvml_does_not_know_of_links_is_unknown() -> None:
    nowhere, silent = read(Card(0, links=(Link(),)), Card(1)).gpus
    assert (nowhere.nvlink_links_active, nowhere.nvlink_peers) == (1, None)
    assert (silent.nvlink_links, silent.nvlink_links_active, silent.nvlink_peers) == (None, None, None)


def test_processors_and_nodes_are_lists_of_the_kernel() -> None:
    card = gpu(Card(cpus=(0, 1, 2, 63, 64, 200), nodes=(1,), own_node=4))
    assert (card.cpu_affinity, card.numa_node, card.memory_numa_node) == ("0-2,63-64,200", 1, 4)
    several = gpu(Card(nodes=(0, 1), own_node=-1))
    assert (several.cpu_affinity, several.numa_node, several.memory_numa_node) == (None, None, None)


# --- texts ---

DOCUMENT = json.dumps(nvml_dump.dump(FakePynvml(Machine((CARVED, replace(Card(1), fabric=Fabric()))))))


def test_what_an_interpreter_prints_before_is_passed_over() -> None:
    assert nvml.read(f"site customised\n{DOCUMENT}\n") == nvml.read(DOCUMENT)


def test_what_a_library_prints_as_it_ends_is_passed_over() -> None:
    text = json.dumps(nvml_dump.dump(FakePynvml(Machine((Card(0),)))))
    assert nvml.read(f"{text}\nclosed\n{{}}\n") == nvml.read(text)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1" * 400])
def test_a_number_that_no_card_can_have_is_unknown(value: str) -> None:
    text = json.dumps(nvml_dump.dump(FakePynvml(Machine((Card(0),)))) | {"cards": "CARDS"})
    cards = json.dumps(nvml_dump.dump(FakePynvml(Machine((Card(0),))))["cards"])
    for key in ("utilization", "temperature", "power_usage", "power_limit"):
        cards = cards.replace(f'"{key}": ', f'"{key}": {value}, "old_{key}": ')
    report = nvml.read(text.replace('"CARDS"', cards))
    assert isinstance(report, nvml.Report)
    (found,) = report.gpus
    assert found.uuid == Card(0).uuid
    assert (found.utilization_percent, found.temperature_c, found.power_limit_w) == (None, None, None)


@pytest.mark.parametrize("count", [-3, "two", None])
def test_a_count_that_is_none_is_no_machine_without_cards(count: Any) -> None:
    library = FakePynvml(Machine((Card(0),)))
    setattr(library, "nvmlDeviceGetCount", lambda: count)  # noqa: B010 - a method that is not assigned to elsewhere
    found = nvml.read(json.dumps(nvml_dump.dump(library)))
    assert isinstance(found, nvml.Failure)
    assert found.stage == "count"


def test_a_refusal_is_no_report() -> None:
    failure = nvml.read(
        json.dumps({"python": "/usr/bin/python3", "failure": {"stage": "init", "error": 9, "text": "no"}})
    )
    assert failure == nvml.Failure("init", 9, "no", "/usr/bin/python3")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", "{}", '{"failure": {}}', '{"cards": 3}', "Killed"])
def test_any_other_text_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        nvml.read(text)


@given(st.integers(0, len(DOCUMENT)), st.text(max_size=3))
def test_a_damaged_document_is_read_or_refused(at: int, put: str) -> None:
    for text in (DOCUMENT[:at] + put, DOCUMENT[:at] + put + DOCUMENT[at + 1 :]):
        with contextlib.suppress(Unreadable):
            nvml.read(text)


VALUES = st.none() | st.booleans() | st.integers(-9, 10**20) | st.text(max_size=3) | st.lists(st.none(), max_size=2)


@given(st.data())
def test_a_document_with_other_values_is_read_or_refused(data: st.DataObject) -> None:
    document: Any = json.loads(DOCUMENT)
    place = document["cards"][data.draw(st.integers(0, 1))]
    while True:
        key = data.draw(st.sampled_from(sorted(place)) if isinstance(place, dict) else st.integers(0, len(place) - 1))
        if not place[key] or not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            place[key] = data.draw(VALUES)
            break
        place = place[key]
    with contextlib.suppress(Unreadable):
        nvml.read(json.dumps(document))
