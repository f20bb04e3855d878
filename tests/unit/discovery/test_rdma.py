# SPDX-License-Identifier: Apache-2.0
"""RDMA ports (D8): what /sys tells of them, on the machines that are met."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import rdma_ports
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import RdmaGid, RdmaPort
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import rdma
from tests.support import rdma_hosts
from tests.support.fake_host import FakeHost


def ports(host: FakeHost) -> dict[str, RdmaPort]:
    found, findings = rdma.read_ports(host, 10.0)
    assert findings == ()
    assert found is not None
    return {rdma_ports.name(port): port for port in found}


def test_a_machine_without_adapters_is_an_island_of_one_and_no_error() -> None:
    assert rdma.read_ports(FakeHost(), 10.0) == ((), ())


def test_adapters_that_cannot_be_listed_are_unknown_and_a_finding_says_so() -> None:
    class Hidden(FakeHost):
        def exists(self, path: str) -> bool:
            return path == rdma.CLASS

    found, (finding,) = rdma.read_ports(Hidden(), 10.0)
    assert found is None
    assert (finding.code, finding.severity) == ("rdma-unreadable", "warn")


def test_an_infiniband_port_is_told_with_its_guids_lids_and_place() -> None:
    port = ports(rdma_hosts.hgx_h100())["mlx5_6:1"]
    assert port == RdmaPort(
        device="mlx5_6",
        port=1,
        link_layer="InfiniBand",
        state="ACTIVE",
        physical_state="LinkUp",
        rate_gbps=400.0,
        lid=0x24,
        sm_lid=1,
        port_guid=rdma_hosts.port_guid(4),
        gids=("fe80:0000:0000:0000:b83f:d203:0000:0004",),
        pkeys=("0xffff",),
        netdev="ibs4",
        pci_address="0000:38:00.0",
        numa_node=1,
        virtual_function=False,
        switch_management=False,
        kind="infiniband",
        active=True,
        node_guid="0xb83fd20300aa0001",
        gids_known=True,
        netdevs=("ibs4",),
        mtu=4092,
        driver="mlx5_core",
        hca_type="MT4129",
        board_id="MT_0000000777",
        firmware="28.40.1000",
        link_downed=0,
        symbol_errors=0,
    )


def test_ports_are_in_the_order_of_their_numbers() -> None:
    assert list(ports(rdma_hosts.hgx_h100())) == [f"mlx5_{number}:1" for number in range(10)]


def test_a_roce_port_has_its_gid_table_its_address_and_no_lid() -> None:
    port = ports(rdma_hosts.hgx_h100())["mlx5_5:1"]
    mapped = "0000:0000:0000:0000:0000:ffff:0a09:0107"
    assert (port.kind, port.lid, port.sm_lid, port.port_guid) == ("roce", None, None, None)
    assert port.gid_table[2:] == (
        RdmaGid(2, mapped, "IB/RoCE v1", "enp64s0f1"),
        RdmaGid(3, mapped, "RoCE v2", "enp64s0f1"),
    )
    assert port.gids == ("fe80:0000:0000:0000:0a3f:d2ff:fe00:0102", mapped)
    assert (port.addresses, port.netdev, port.switch_management) == (("10.9.1.7",), "enp64s0f1", False)


def test_the_way_to_the_nvswitches_is_told_from_a_network_by_its_vpd() -> None:
    found = ports(rdma_hosts.hgx_b200())
    assert [name for name, port in found.items() if port.switch_management] == [f"mlx5_{n}:1" for n in range(2, 6)]
    assert [name for name, port in found.items() if rdma_ports.is_candidate(port)] == ["mlx5_0:1", "mlx5_1:1"]


def test_without_its_vpd_the_role_of_a_connectx_7_is_unknown() -> None:
    host = rdma_hosts.machine(rdma_hosts.adapter("mlx5_0", "0000:18:00.0", rdma_hosts.infiniband_port(0)))
    port = ports(host)["mlx5_0:1"]
    assert port.switch_management is None
    assert rdma_ports.is_candidate(port)


def test_the_vpd_of_a_port_that_cannot_manage_switches_is_not_read() -> None:
    asked = []

    class Watched(rdma_hosts.RdmaHost):
        def read(self, path: str, limit: int = 1 << 22) -> bytes | None:
            asked.append(path)
            return super().read(path, limit)

    plain = rdma_hosts.machine(
        rdma_hosts.adapter("mlx5_0", "0000:18:00.0", rdma_hosts.infiniband_port(0), device="0x101b", files={}),
        rdma_hosts.adapter("mlx5_1", "0000:19:00.0", rdma_hosts.roce_port()),
    )
    found = ports(Watched(plain.files, links=plain.links))
    assert [port.switch_management for port in found.values()] == [False, False]
    assert not [path for path in asked if path.endswith("/vpd")]


def test_a_vpd_that_hangs_leaves_the_role_unknown_and_costs_nothing_else() -> None:
    host = rdma_hosts.hgx_b200()
    host.silent = ("/sys/bus/pci/devices/0000:10:00.0/vpd",)
    found = ports(host)
    assert len(found) == 6
    assert {port.switch_management for port in found.values()} == {None}


def test_an_efa_is_never_an_infiniband_adapter_whatever_its_link_layer_says() -> None:
    found = ports(rdma_hosts.aws())
    assert {name: port.kind for name, port in found.items()} == {"efa_1:1": "efa", "rdmap1s0:1": "efa"}
    assert [rdma_ports.why_not(port) for port in found.values()] == ["efa", "efa"]


def test_a_bond_is_one_port_with_the_interfaces_of_its_gids() -> None:
    port = ports(rdma_hosts.bonded())["mlx5_bond_0:1"]
    assert (port.netdev, port.netdevs, port.mtu) == ("bond0", ("bond0", "bond0.21"), 9000)
    assert port.addresses == ("10.20.0.5", "10.21.0.5")
    assert port.gid_table[-1] == RdmaGid(4, "0000:0000:0000:0000:0000:ffff:0a15:0005", "RoCE v2", "bond0.21")


def test_a_virtual_function_is_told_apart_and_looked_at_in_brief() -> None:
    port = ports(rdma_hosts.bonded())["mlx5_2:1"]
    assert (port.virtual_function, port.netdev, port.gids, port.gids_known) == (True, "enp33s0f0v0", (), False)
    assert rdma_ports.why_not(port) == "virtual-function"
    assert rdma_ports.is_candidate(port, virtual_functions=True)


def test_a_virtual_function_is_no_way_to_the_nvswitches() -> None:
    function = rdma_hosts.adapter(
        "mlx5_7", "0000:18:00.1", rdma_hosts.infiniband_port(7), physical_function="0000:18:00.0"
    )
    port = ports(rdma_hosts.machine(function))["mlx5_7:1"]
    assert (port.virtual_function, port.switch_management) == (True, False)


def test_the_guid_of_a_port_is_that_of_its_first_gid_alone() -> None:
    port = rdma_hosts.infiniband_port(
        7, gids__0=rdma_hosts.EMPTY_GID, gids__1="fe80:0000:0000:0000:0000:0000:0000:0009"
    )
    found = ports(rdma_hosts.machine(rdma_hosts.adapter("mlx5_0", "0000:18:00.0", port)))["mlx5_0:1"]
    assert (found.port_guid, len(found.gids)) == (None, 1)


@pytest.mark.parametrize(("driver", "vendor"), [("efa", ""), ("", "0x1d0f")])
def test_either_driver_or_vendor_tells_an_efa(driver: str, vendor: str) -> None:
    port = rdma_hosts.infiniband_port(1)
    adapter = rdma_hosts.adapter("rdmap0s6", "0000:18:00.0", port, driver=driver, vendor=vendor, device="")
    assert ports(rdma_hosts.machine(adapter))["rdmap0s6:1"].kind == "efa"


def test_a_sub_function_belongs_to_the_pci_function_above_it() -> None:
    files, links = rdma_hosts.adapter("mlx5_9", None, rdma_hosts.roce_port("10.0.0.1"))
    links["/sys/class/infiniband/mlx5_9/device"] = "../../devices/pci0000:00/0000:18:00.0/mlx5_core.sf.2"
    port = ports(rdma_hosts.machine((files, links)))["mlx5_9:1"]
    assert (port.pci_address, port.virtual_function) == ("0000:18:00.0", True)


def test_of_hundreds_of_virtual_functions_the_first_are_told_and_the_rest_are_counted() -> None:
    functions = [
        rdma_hosts.adapter(
            f"mlx5_{number}", f"0000:18:{number:02x}.1", rdma_hosts.roce_port(), physical_function="0000:18:00.0"
        )
        for number in range(1, 30)
    ]
    real = rdma_hosts.adapter("mlx5_30", "0000:18:00.0", rdma_hosts.roce_port("10.0.0.1"))
    found, (finding,) = rdma.read_ports(rdma_hosts.machine(*functions, real), 10.0)
    assert found is not None
    assert [port.device for port in found] == [*(f"mlx5_{number}" for number in range(1, 17)), "mlx5_30"]
    assert (finding.code, finding.message[:2]) == ("rdma-functions-left-out", "13")


def test_both_ports_of_one_function_get_their_own_interface_and_guid() -> None:
    found = ports(rdma_hosts.two_ports())
    first, second = found["mlx4_0:1"], found["mlx4_0:2"]
    assert (first.netdev, second.netdev, first.numa_node) == ("ib0", "ib1", None)
    assert (first.port_guid, second.port_guid) == (rdma_hosts.port_guid(1), rdma_hosts.port_guid(2))
    assert (second.active, second.state, second.physical_state, second.lid) == (False, "DOWN", "Polling", None)
    assert rdma_ports.why_not(second) == "not-active"


def test_an_adapter_that_does_not_answer_costs_itself_alone() -> None:
    host = rdma_hosts.hgx_h100()
    host.silent = ("/sys/class/infiniband/mlx5_3/ports/1/state",)
    found, (finding,) = rdma.read_ports(host, 10.0)
    assert found is not None
    assert (len(found), "mlx5_3" in {port.device for port in found}) == (9, False)
    assert (finding.code, finding.subject) == ("rdma-adapter-silent", "mlx5_3")


def test_when_nothing_answers_the_ports_are_unknown_and_not_none() -> None:
    found, findings = rdma.read_ports(rdma_hosts.hgx_h100(), 0.0)
    assert found is None
    assert len(findings) == 10


@pytest.mark.parametrize(
    ("files", "kind", "reason"),
    [
        ({"node_type": "4: RNIC"}, "iwarp", "iwarp"),
        ({"parent": "eth0"}, "software", "software"),
        ({}, "roce", None),
    ],
)
def test_an_ethernet_port_is_roce_unless_it_speaks_iwarp_or_is_made_of_software(
    files: dict[str, str], kind: str, reason: str | None
) -> None:
    adapter = rdma_hosts.adapter("irdma0", "0000:18:00.0", rdma_hosts.roce_port("10.0.0.1"), files=files, driver="ice")
    port = ports(rdma_hosts.machine(adapter))["irdma0:1"]
    assert (port.kind, rdma_ports.why_not(port)) == (kind, reason)


def test_an_omni_path_adapter_is_named_as_what_it_is() -> None:
    adapter = rdma_hosts.adapter("hfi1_0", "0000:18:00.0", rdma_hosts.infiniband_port(1), driver="hfi1")
    port = ports(rdma_hosts.machine(adapter))["hfi1_0:1"]
    assert (port.kind, port.switch_management) == ("omni-path", False)


def test_a_roce_port_without_gids_serves_nothing_here() -> None:
    files, links = rdma_hosts.adapter("mlx5_0", "0000:18:00.0", rdma_hosts.roce_port())
    bare = {path: rdma_hosts.EMPTY_GID if "/gids/" in path else text for path, text in files.items()}
    assert rdma_ports.why_not(ports(rdma_hosts.machine((bare, links)))["mlx5_0:1"]) == "no-gid"


def test_a_state_that_was_not_read_is_unknown_and_not_down() -> None:
    files, links = rdma_hosts.adapter("mlx5_0", "0000:18:00.0", rdma_hosts.roce_port("10.0.0.1"))
    files.pop("/sys/class/infiniband/mlx5_0/ports/1/state")
    port = ports(rdma_hosts.machine((files, links)))["mlx5_0:1"]
    assert (port.active, rdma_ports.why_not(port)) == (None, "state-unknown")


def test_the_data_direct_half_of_an_adapter_counts_once() -> None:
    adapter = rdma_hosts.adapter("mlx5_0_dma", "0000:18:00.0", rdma_hosts.roce_port("10.0.0.1"))
    assert rdma_ports.why_not(ports(rdma_hosts.machine(adapter))["mlx5_0_dma:1"]) == "data-direct"


def test_every_reason_has_its_words() -> None:
    blank = RdmaPort("mlx5_0", 1)
    assert rdma_ports.why_not(blank) == "link-layer"
    assert all(reason in rdma_ports.REASONS for reason in ("efa", "switch-management", "no-gid", "link-layer"))


def test_gids_are_found_behind_gaps_and_their_number_is_bounded() -> None:
    port = rdma_hosts.roce_port("10.0.0.1")
    port |= {f"ports/1/gids/{index}": f"{rdma_hosts.EMPTY_GID}\n" for index in range(4, 30)}
    port |= {f"ports/1/gids/{index}": f"fe80:0000:0000:0000:0000:0000:0000:{index:04x}\n" for index in range(30, 60)}
    table = ports(rdma_hosts.machine(rdma_hosts.adapter("mlx5_0", "0000:18:00.0", port)))["mlx5_0:1"].gid_table
    assert [entry.index for entry in table] == [0, 1, 2, 3, *range(30, 42)]


def test_the_facts_of_ten_ports_are_small() -> None:
    found = [asdict(port) for port in ports(rdma_hosts.hgx_h100()).values()]
    assert len(json.dumps(found)) < 14_000


def test_a_rate_of_zero_is_unknown() -> None:
    silent = rdma_hosts.adapter("mlx5_0", "0000:18:00.0", rdma_hosts.infiniband_port(0, rate="0 Gb/sec"))
    ports, _findings = rdma.read_ports(rdma_hosts.machine(silent), 10)
    assert [port.rate_gbps for port in ports or ()] == [None]
