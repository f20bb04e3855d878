# SPDX-License-Identifier: Apache-2.0
"""Cards of nvidia-smi as facts: the same from both of its long forms, in forms that another path can give too."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import DeviceProcess, Ecc, Gpu, GpuFabric, Remap
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import smi_card
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.smi_card import SmiCards
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import smi_q, smi_xml
from tests.support import smi_machines, smi_texts
from tests.support.smi_machines import REASONS, Card, Instance, Process


def by_xml(*cards: Card) -> SmiCards:
    return smi_card.cards(smi_xml.read(smi_machines.xml(*cards)))


def by_text(*cards: Card) -> SmiCards:
    return smi_card.cards(smi_q.read(smi_machines.text(*cards)))


def only(card: Card) -> Gpu:
    (gpu,) = by_xml(card).gpus
    assert by_text(card).gpus == (gpu,)
    return gpu


NOTHING = st.sampled_from(["N/A", "[N/A]", "Not Supported", "Unknown Error", "[Unknown Error]", "ERR!", ""])
COUNT = st.integers(0, 10**9).map(str) | NOTHING
MIB = st.integers(0, 300_000).map("{} MiB".format) | NOTHING
WATTS = st.decimals(0, 1500, places=2).map("{} W".format) | NOTHING
WORD = st.sampled_from(["Enabled", "Disabled", "Yes", "No", "None", "Reset", "True", "False", "Healthy"]) | NOTHING
NAME = st.text("abc/[]():<>&'\" %-é", max_size=30)
PLACE = st.sampled_from(["N/A", "1", "2"])
PROCESSES = st.builds(
    Process, st.integers(1, 99), NAME, MIB, st.sampled_from(["C", "G", "C+G", "M+C", "N/A"]), PLACE, PLACE
)
INSTANCES = st.lists(
    st.builds(Instance, st.integers(0, 7), st.integers(0, 3), st.integers(0, 2), MIB, MIB, COUNT, COUNT)
)
CARDS = st.builds(
    Card,
    old=st.booleans(),
    name=NAME,
    serial=COUNT,
    uuid=st.sampled_from([None, "GPU-1", "GPU is lost", "Unknown Error"]),
    persistence=WORD,
    mig=st.tuples(WORD, WORD),
    instances=INSTANCES.map(tuple),
    recovery=WORD,
    reset_required=WORD,
    drain_and_reset=WORD,
    widths=st.tuples(COUNT.map("{}x".format), NOTHING),
    reasons=st.dictionaries(st.sampled_from(sorted(REASONS)), st.sampled_from(["Active", "Not Active", "N/A"])),
    total=MIB,
    reserved=MIB,
    used=MIB,
    utilization=COUNT.map("{} %".format),
    ecc=WORD,
    volatile=st.tuples(COUNT, COUNT, COUNT, COUNT, COUNT),
    aggregate=st.tuples(COUNT, COUNT, COUNT, COUNT, COUNT),
    threshold=WORD,
    rows=st.tuples(COUNT, COUNT, WORD, WORD),
    pages=st.tuples(COUNT, COUNT, WORD),
    temperature=COUNT.map("{} C".format),
    draw=st.tuples(WATTS, WATTS),
    limit=WATTS,
    fabric=st.tuples(WORD, WORD, COUNT, COUNT),
    health=st.tuples(*[WORD] * 6),
    processes=st.none() | st.lists(PROCESSES, max_size=5).map(tuple),
)


@given(st.lists(CARDS, max_size=3))
def test_both_forms_of_one_machine_give_equal_facts(cards: list[Card]) -> None:
    numbered = [replace(card, number=number) for number, card in enumerate(cards)]
    assert by_xml(*numbered) == by_text(*numbered)


def test_less_memory_than_none_is_unknown() -> None:
    gpu = only(Card(total="-5 MiB", used="-1 MiB", reserved="-2 MiB"))
    assert (gpu.memory_total_mib, gpu.memory_used_mib, gpu.memory_reserved_mib) == (None, None, None)


def test_everything_that_nvidia_smi_tells_of_a_card_is_a_fact() -> None:
    gpu = only(Card(processes=(Process(5),), pages=("4", "1", "Yes")))
    assert gpu == Gpu(
        index=0,
        uuid="GPU-0000aaaa-0000-4000-8000-000000000000",
        name="NVIDIA H100 80GB HBM3",
        pci_address="0000:10:00.0",
        serial="1650000000007",
        memory_total_mib=81559,
        memory_used_mib=11125,
        memory_reserved_mib=479,
        utilization_percent=65,
        temperature_c=53,
        power_draw_w=432.21,
        power_limit_w=700.0,
        persistence_mode=True,
        pcie_width=8,
        pcie_width_max=16,
        throttle_reasons=("gpu_idle", "hw_thermal_slowdown"),
        recovery_action="None",
        ecc=Ecc(
            enabled=True,
            corrected_volatile=5,
            uncorrected_volatile=10,
            corrected_aggregate=50,
            uncorrected_aggregate=100,
            sram_threshold_exceeded=False,
        ),
        remap=Remap(1, 2, pending=False, failed=True, retired_pages=5, retired_pending=True),
        processes=(DeviceProcess(5, "python", 100, kind="C"),),
        mig_mode=False,
        mig_pending=False,
        fabric=GpuFabric(
            "Completed",
            "Success",
            "0a0b0c0d-0000-4000-8000-000000000001",
            7,
            "Healthy",
            "Full",
            route_recovery=False,
            route_unhealthy=True,
            access_timeout_recovery=False,
            incorrect_configuration=None,
        ),
    )


def test_an_old_driver_tells_less_and_the_rest_is_unknown() -> None:
    gpu = only(Card(old=True, volatile=("3", "2"), aggregate=("7", "N/A")))
    assert gpu.ecc == Ecc(enabled=True, corrected_volatile=3, uncorrected_volatile=2, corrected_aggregate=7)
    assert (gpu.power_draw_w, gpu.power_limit_w, gpu.fabric, gpu.recovery_action) == (432.21, 700.0, None, None)
    (oldest,) = smi_card.cards(smi_xml.read(smi_texts.OLD)).gpus
    assert oldest.throttle_reasons == ("hw_slowdown",)
    assert oldest.remap == Remap(retired_pages=5, retired_pending=True)
    assert (oldest.utilization_percent, oldest.mig_mode, oldest.power_limit_w) == (None, None, 250.0)


def test_a_counter_beside_its_own_parts_is_counted_once() -> None:
    text = smi_machines.xml(Card(volatile=("0", "2", "3", "0", "4"))).replace(
        "<sram_uncorrectable_parity>", "<sram_uncorrectable>5</sram_uncorrectable><sram_uncorrectable_parity>", 1
    )
    (gpu,) = smi_card.cards(smi_xml.read(text)).gpus
    assert gpu.ecc is not None
    assert gpu.ecc.uncorrected_volatile == 9


@pytest.mark.parametrize(
    ("draw", "expected"), [(("10.004 W", "20 W"), 10.0), (("N/A", "20.50 W"), 20.5), (("N/A", "N/A"), None)]
)
def test_the_draw_is_the_cards_average_else_its_instant_and_never_the_modules(
    draw: tuple[str, str], expected: float | None
) -> None:
    assert only(Card(draw=draw)).power_draw_w == expected


@pytest.mark.parametrize("card", [Card(total="0 MiB", used="0 MiB"), Card(total="N/A", used="Not Supported")])
def test_a_card_without_memory_of_its_own_has_an_unknown_total(card: Card) -> None:
    assert only(card).memory_total_mib is None


@pytest.mark.parametrize(
    ("required", "recommended", "action"),
    [("Yes", "N/A", "Reset"), ("Yes", "Yes", "Reset"), ("No", "Yes", "Drain and Reset"), ("No", "No", None)],
)
def test_the_flags_of_older_drivers_become_the_actions_of_newer_ones(
    required: str, recommended: str, action: str | None
) -> None:
    assert only(Card(old=True, reset_required=required, drain_and_reset=recommended)).recovery_action == action


@pytest.mark.parametrize(
    ("states", "reasons"),
    [
        (dict.fromkeys(REASONS, "Active"), tuple(sorted(REASONS))),
        (dict.fromkeys(REASONS, "Not Active"), ()),
        (dict.fromkeys(REASONS, "N/A"), None),
    ],
)
def test_reasons_have_one_name_in_every_form(states: dict[str, str], reasons: tuple[str, ...] | None) -> None:
    assert only(Card(reasons=states)).throttle_reasons == reasons
    assert only(Card(old=True, reasons=states)).throttle_reasons == reasons


@pytest.mark.parametrize(("word", "told"), [("None", None), ("N/A", None), ("No Partition", "No Partition")])
def test_a_fabric_that_is_configured_well_has_no_wrong_configuration(word: str, told: str | None) -> None:
    gpu = only(Card(health=("Limited Capacity", "Degraded", "N/A", "N/A", "N/A", word)))
    assert gpu.fabric is not None
    assert (gpu.fabric.health_summary, gpu.fabric.bandwidth) == ("Limited Capacity", "Degraded")
    assert (gpu.fabric.route_recovery, gpu.fabric.incorrect_configuration) == (None, told)


def test_a_fabric_of_which_nothing_is_told_is_none() -> None:
    assert only(Card(fabric=("N/A",) * 4, health=("N/A",) * 6)).fabric is None


def test_a_process_belongs_to_the_instance_that_it_runs_in() -> None:
    processes = (
        Process(13, gi="7", ci="0", used="N/A"),
        Process(11, gi="1", ci="0"),
        Process(12, name="[Not Found]"),
        Process(11, gi="1", ci="0"),
    )
    card = Card(mig=("Enabled", "Enabled"), instances=(Instance(1, 2), Instance(0, 1)), processes=processes)
    gpu = only(card)
    first, second = gpu.mig_instances
    assert (first.index, first.gpu_instance_id, first.memory_total_mib, first.multiprocessors) == (0, 1, 9984, 16)
    assert first.ecc == Ecc(uncorrected_volatile=0)
    assert first.processes == (DeviceProcess(11, "python", 100, kind="C"),)
    assert second.processes == ()
    assert gpu.processes == (DeviceProcess(12, None, 100, kind="C"), DeviceProcess(13, "python", None, kind="C"))
    silent = only(replace(card, processes=None))
    assert (silent.processes, silent.mig_instances[0].processes) == (None, None)


def test_a_card_whose_identity_is_an_error_is_lost_and_the_others_are_not() -> None:
    told = by_xml(Card(0), Card(1, uuid="GPU is lost"), Card(2, uuid="[Unknown Error]"))
    assert told.lost == {1: "GPU is lost", 2: "[Unknown Error]"}
    assert [gpu.uuid is None for gpu in told.gpus] == [False, True, True]


def test_versions_that_are_not_there_are_unknown() -> None:
    told = smi_card.cards(smi_q.read(smi_machines.text(Card(), cuda="Not Found")))
    assert (told.driver_version, told.cuda_version) == ("570.86.15", None)


@pytest.mark.parametrize(
    ("printed", "address"),
    [
        ("00000000:4C:00.0", "0000:4c:00.0"),
        ("0000:4c:00.0", "0000:4c:00.0"),
        ("0000000F:01:00.0", "000f:01:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("", None),
        (None, None),
        ("nonsense", None),
    ],
)
def test_a_bus_id_is_written_as_the_kernel_writes_it(printed: str | None, address: str | None) -> None:
    assert smi_card.pci_address(printed) == address
