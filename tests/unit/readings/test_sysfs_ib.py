# SPDX-License-Identifier: Apache-2.0
"""Dumps of /sys/class/infiniband, and the vital product data of adapters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import sysfs_ib, sysfs_ib_vpd
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from tests.support import rdma_hosts

DUMP = """/sys/class/infiniband/mlx4_0/board_id: MT_1090120019
/sys/class/infiniband/mlx4_0/hca_type:MT4099
/sys/class/infiniband/mlx4_0/ports/1/state:4: ACTIVE
/sys/class/infiniband/mlx4_0/ports/1/phys_state: 5: LinkUp
/sys/class/infiniband/mlx4_0/ports/1/rate:  56 Gb/sec (4X FDR)
/sys/class/infiniband/mlx4_0/ports/1/counters/link_downed: 3
/sys/class/infiniband/mlx4_0/ports/1/gids/0: fe80:0000:0000:0000:b83f:d203:0000:0001
/sys/class/infiniband/mlx4_0/ports/2/state: 2: INIT
/sys/class/infiniband/mlx4_0/ports/2/phys_state: 4: ACTIVE
/sys/class/infiniband/hfi1_0/ports/1/rate: 2.5 Gb/sec (1X SDR)
/sys/class/infiniband/efa_0/node_desc:
/sys/devices/pci0000:00/0000:18:00.0/infiniband/irdma0/ports/1/link_layer: Ethernet
"""


def test_every_file_is_told_under_its_device_and_port() -> None:
    devices = sysfs_ib.read(DUMP).devices
    assert devices["mlx4_0"] == {
        "board_id": "MT_1090120019",
        "hca_type": "MT4099",
        "ports": {
            "1": {
                "state": "4: ACTIVE",
                "phys_state": "5: LinkUp",
                "rate": "56 Gb/sec (4X FDR)",
                "counters/link_downed": "3",
                "gids/0": "fe80:0000:0000:0000:b83f:d203:0000:0001",
                "rate_gbps": 56.0,
                "active": True,
            },
            "2": {"state": "2: INIT", "phys_state": "4: ACTIVE", "active": False},
        },
    }
    assert devices["hfi1_0"] == {"ports": {"1": {"rate": "2.5 Gb/sec (1X SDR)", "rate_gbps": 2.5}}}
    assert devices["efa_0"] == {"node_desc": "", "ports": {}}
    assert devices["irdma0"] == {"ports": {"1": {"link_layer": "Ethernet"}}}


def test_a_dump_from_within_the_folder_reads_the_same() -> None:
    inside = "./mlx5_bond_0/ports/1/state:4: ACTIVE\nmlx5_bond_0/board_id:MT_0000000884\n"
    assert sysfs_ib.read(inside).devices == {
        "mlx5_bond_0": {"board_id": "MT_0000000884", "ports": {"1": {"state": "4: ACTIVE", "active": True}}}
    }


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("400 Gb/sec (4X NDR)", 400.0),
        ("2.5 Gb/sec (1X SDR)", 2.5),
        ('"100 Gb/sec"', 100.0),
        ("56", 56.0),
        ("200 (4X HDR)", 200.0),
        ("", None),
        ("0 Gb/sec (4X SDR)", 0.0),
        ("-1 Gb/sec", None),
        ("0x4000", None),
        ("Invalid argument", None),
        ("cat: /sys/class/infiniband/mlx5_0/ports/1/rate: Invalid argument", None),
    ],
)
def test_a_rate_is_its_first_number_and_unknown_without_one(text: str, rate: float | None) -> None:
    assert sysfs_ib.rate_gbps(text) == rate
    ports = sysfs_ib.read(f"/sys/class/infiniband/mlx5_0/ports/1/rate: {text}").devices["mlx5_0"]["ports"]
    assert ports["1"]["rate_gbps"] == rate


def test_a_state_without_a_number_is_neither_active_nor_not() -> None:
    assert sysfs_ib.is_active("ACTIVE") is None
    assert sysfs_ib.rate_gbps("unknown") is None
    assert sysfs_ib.numbered("Polling") == (None, "Polling")
    assert sysfs_ib.numbered("") == (None, None)


@pytest.mark.parametrize(
    "text", ["", "cat: /sys/class/infiniband/*: No such file or directory", "a/b: c", "state: 4: ACTIVE"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        sysfs_ib.read(text)


@given(st.binary(max_size=100), st.integers(0, 2000))
def test_any_bytes_give_a_reading_or_the_readers_own_error(noise: bytes, place: int) -> None:
    text = DUMP[: place % len(DUMP)] + noise.decode("utf-8", "replace") + DUMP[place % len(DUMP) :]
    try:
        found = sysfs_ib.read(text)
    except Unreadable:
        return
    assert all("ports" in device for device in found.devices.values())


def test_vpd_tells_the_name_and_the_fields_of_a_function() -> None:
    fields = sysfs_ib_vpd.read(rdma_hosts.SWITCH_MANAGEMENT)
    assert (fields["ID"], fields["PN"], fields["SN"]) == ("Adapter with one name", "P0001", "S0001")


def test_only_the_field_that_says_so_makes_a_way_to_switches() -> None:
    assert sysfs_ib_vpd.manages_switches(sysfs_ib_vpd.read(rdma_hosts.SWITCH_MANAGEMENT))
    assert not sysfs_ib_vpd.manages_switches(sysfs_ib_vpd.read(rdma_hosts.NETWORK))
    assert not sysfs_ib_vpd.manages_switches(sysfs_ib_vpd.read(rdma_hosts.vpd(VA="SMDL=SW_MNGX:XSMDL=SW_MNG")))


def test_vpd_that_breaks_off_keeps_the_fields_before_the_break() -> None:
    whole = rdma_hosts.SWITCH_MANAGEMENT
    cut = sysfs_ib_vpd.read(whole[: whole.index(b"SN") + 5])
    assert cut["PN"] == "P0001"


@given(st.binary(max_size=400))
def test_any_vpd_gives_fields_or_the_readers_own_error(content: bytes) -> None:
    for some in (content, rdma_hosts.NETWORK[: len(content)] + content):
        try:
            assert sysfs_ib_vpd.read(some)
        except Unreadable:
            continue


def test_a_rate_as_long_as_a_file_takes_no_time() -> None:
    assert sysfs_ib.rate_gbps(" " * 10_000 + "400 Gb/sec" + " " * 100_000 + "x") == 400.0
