# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from llmgw.fleet.devices import devices_of
from llmgw.nodekit import contract
from tests.support.fleets import facts

CARD = contract.Gpu(
    2, "GPU-c", None, "a100-80g", compute_capability="8.0", memory_total_mib=81920, mig_mode=False, numa_node=1
)
INSTANCES = (
    contract.MigInstance("MIG-5", 5, device_class="a100-80g-mig-1g.10gb", memory_total_mib=9728),
    contract.MigInstance("MIG-0", 0, device_class="a100-80g-mig-3g.40gb", memory_total_mib=40192, processes=()),
)
SPLIT = replace(CARD, uuid="GPU-m", mig_mode=True, mig_instances=INSTANCES)


def with_gpus(*gpus: contract.Gpu, findings: tuple[contract.Finding, ...] = ()) -> contract.NodeFacts:
    return replace(facts("n1"), gpus=gpus, findings=findings)


def test_unknown_cards_are_none_and_no_cards_are_empty() -> None:
    assert devices_of(replace(facts("n1"), gpus=None)) is None
    assert devices_of(with_gpus()) == ()


def test_a_card_is_one_device_under_its_index() -> None:
    (device,) = devices_of(with_gpus(CARD)) or ()
    assert (device.uuid, device.index, device.display_name, device.device_class) == ("GPU-c", 2, "2", "a100-80g")
    assert (device.memory_total_mib, device.compute_capability, device.numa_node) == (81920, "8.0", 1)
    assert not device.mig


def test_a_card_in_mig_mode_is_its_instances_by_their_sparse_indexes() -> None:
    found = devices_of(with_gpus(SPLIT)) or ()
    assert [(one.uuid, one.index, one.display_name, one.device_class) for one in found] == [
        ("MIG-0", 1200, "2/mig0", "a100-80g-mig-3g.40gb"),
        ("MIG-5", 1205, "2/mig5", "a100-80g-mig-1g.10gb"),
    ]
    assert all(one.mig for one in found)
    assert [one.memory_total_mib for one in found] == [40192, 9728]
    assert [one.compute_capability for one in found] == ["8.0", "8.0"]


def test_whole_cards_come_before_instances_whatever_the_order_of_the_facts() -> None:
    found = devices_of(with_gpus(SPLIT, replace(CARD, index=7), replace(CARD, index=0, uuid="GPU-z"))) or ()
    assert [one.display_name for one in found] == ["0", "7", "2/mig0", "2/mig5"]


def test_mig_mode_with_nothing_carved_offers_nothing() -> None:
    assert devices_of(with_gpus(replace(SPLIT, mig_instances=()))) == ()


def test_what_has_no_uuid_or_no_class_cannot_be_placed_on() -> None:
    nameless = (replace(INSTANCES[0], uuid=None), replace(INSTANCES[1], device_class=None))
    cards = (replace(CARD, uuid=None), replace(CARD, device_class=None), replace(SPLIT, mig_instances=nameless))
    assert devices_of(with_gpus(*cards)) == ()


def test_one_bad_card_takes_itself_out_and_not_its_neighbour() -> None:
    bad = contract.Finding("ecc-uncorrected", "block", "2 errors", subject="GPU-c")
    warning = contract.Finding("hot", "warn", "88 C", subject="GPU-d")
    both = devices_of(with_gpus(CARD, replace(CARD, index=3, uuid="GPU-d"), findings=(bad, warning))) or ()
    assert [one.blocked_by for one in both] == [(bad,), ()]


def test_a_blocked_card_blocks_its_instances_and_a_blocked_instance_only_itself() -> None:
    card = contract.Finding("fell-off", "block", "lost", subject="GPU-m")
    instance = contract.Finding("held", "block", "held", subject="MIG-5")
    found = {one.uuid: one.blocked_by for one in devices_of(with_gpus(SPLIT, findings=(card, instance))) or ()}
    assert found == {"MIG-0": (card,), "MIG-5": (card, instance)}


def test_a_finding_about_the_node_blocks_no_device() -> None:
    general = contract.Finding("driver", "block", "no driver", subject=None)
    (device,) = devices_of(with_gpus(replace(CARD, uuid="GPU-c"), findings=(general,))) or ()
    assert device.blocked_by == ()


def test_foreign_memory_is_what_no_unit_of_ours_holds() -> None:
    ours = contract.DeviceProcess(1, "vllm", 70000, unit="llmgw-chat.0.0.service")
    theirs = (contract.DeviceProcess(2, "python", 300), contract.DeviceProcess(3, "Xorg", 20))
    (device,) = devices_of(with_gpus(replace(CARD, processes=(ours, *theirs)))) or ()
    assert device.foreign_used_mib == 320


def test_foreign_memory_is_unknown_when_a_process_does_not_tell() -> None:
    silent = (contract.DeviceProcess(2, "python", 300), contract.DeviceProcess(3, "secret", None))
    held = [devices_of(with_gpus(replace(CARD, processes=processes))) for processes in (silent, None, ())]
    assert [one[0].foreign_used_mib for one in held if one] == [None, None, 0]


def test_unknown_links_stay_unknown_and_none_stays_none() -> None:
    linked = replace(CARD, nvlink_peers=(contract.NvlinkPeer("GPU-d", 12),))
    alone = replace(CARD, nvlink_peers=())
    seen = [(devices_of(with_gpus(card)) or ())[0].nvlink_peers for card in (CARD, alone, linked)]
    assert seen == [None, (), ("GPU-d",)]


def test_an_old_blocking_finding_keeps_new_replicas_away_and_moves_nothing() -> None:
    old = contract.Finding("ecc-uncorrected", "block", "2 errors", subject="GPU-m")
    new = contract.Finding("held", "block", "held", subject="MIG-5")
    found = devices_of(with_gpus(SPLIT, findings=(old, new)), old={old}) or ()
    assert {one.uuid: (one.blocked_by, one.kept_away_by) for one in found} == {
        "MIG-0": ((), (old,)),
        "MIG-5": ((new,), (old,)),
    }


def test_a_card_outside_its_fabric_starts_nothing_new_and_moves_nothing() -> None:
    waiting = replace(CARD, fabric=contract.GpuFabric(state="In Progress"))
    (device,) = devices_of(with_gpus(waiting)) or ()
    assert [one.code for one in device.kept_away_by] == ["fabric-not-joined"]
    assert device.blocked_by == ()
    for fabric in (None, contract.GpuFabric(state="Completed"), contract.GpuFabric()):
        (device,) = devices_of(with_gpus(replace(CARD, fabric=fabric))) or ()
        assert device.kept_away_by == ()


def test_a_bad_row_that_waits_for_a_reset_moves_nothing() -> None:
    pending = contract.Finding("remap-pending", "block", "a bad row", subject="GPU-c")
    (device,) = devices_of(with_gpus(CARD, findings=(pending,))) or ()
    assert (device.blocked_by, device.kept_away_by) == ((), (pending,))
