# SPDX-License-Identifier: Apache-2.0
"""Evidence about subnets (D9): asked of the ports that could be in a fabric, shared by those that are in one."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import rdma_ports
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import RdmaPort
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import rdma, rdma_subnet
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Result
from tests.support import rdma_hosts
from tests.support.rdma_hosts import RdmaHost, port_guid

REFUSED = Result(
    255,
    "sminfo: iberror: failed: Failed to open 'mlx5_0' port '1'\n",
    "ibwarn: [14] mad_rpc_open_port: can't open UMAD port (mlx5_0:1)\n",
)


def walk(*numbers: int) -> str:
    """The ports report of a leaf with these adapters, of whom some are other nodes'."""
    lines = [
        "SW     9  2 0x00b1000000000001 4x NDR                                    'spine'",
        "SW     9  1 0x00b1000000000001 4x NDR - SW     3  8 0x00a1000000000001 ( 'spine' - 'leaf' )",
    ]
    lines += [
        f"CA    {number}  1 {port_guid(number)} 4x NDR - SW     3  {number} 0x00a1000000000001 ( 'n' - 'leaf' )"
        for number in numbers
    ]
    return "\n".join(lines) + "\n"


def answers(device: str, number: int, report: str | None = None) -> dict[str, str]:
    place = f"-C {device} -P 1"
    found = {
        f"sminfo {place}": "sminfo: sm lid 1 sm guid 0xb1000000000001, activity count 77 priority 14 state 3 MASTER\n",
        f"smpquery {place} -D nodeinfo 0,1": (
            "# Node info: DR path slid 65535; dlid 65535; 0,1\n"
            "NodeType:........................Switch\n"
            f"Guid:............................0x{0xA100000000000000 + number:016x}\n"
        ),
    }
    return found if report is None else found | {f"ibnetdiscover -p {place}": report}


def asked(host: RdmaHost) -> tuple[dict[str, RdmaPort], list[str]]:
    ports, _findings = rdma.read_ports(host, 10.0)
    assert ports is not None
    found, findings = rdma_subnet.read_subnets(host, ports, 30.0)
    assert [port.device for port in found] == [port.device for port in ports]
    return {rdma_ports.name(port): port for port in found}, [finding.code for finding in findings]


def two_rails(commands: dict[str, str]) -> RdmaHost:
    adapters = (
        rdma_hosts.adapter(f"mlx5_{number}", f"0000:1{number}:00.0", rdma_hosts.infiniband_port(number))
        for number in range(2)
    )
    return rdma_hosts.machine(*adapters, commands=commands)


def test_ports_of_one_subnet_cost_one_walk_and_one_list() -> None:
    host = two_rails(answers("mlx5_0", 0, walk(0, 1, 20, 21)) | answers("mlx5_1", 1))
    found, findings = asked(host)
    first, second = found["mlx5_0:1"], found["mlx5_1:1"]
    assert findings == []
    assert first.subnet_port_guids == tuple(port_guid(number) for number in (0, 1, 20, 21))
    assert (second.subnet_port_guids, second.subnet_port_count) == (None, 4)
    assert first.subnet_digest == second.subnet_digest
    assert first.sm_guids == ("0x00b1000000000001",)
    assert (first.switch_guid, second.switch_guid) == ("0xa100000000000000", "0xa100000000000001")
    assert [line for line in host.ran if line.startswith("ibnetdiscover")] == ["ibnetdiscover -p -C mlx5_0 -P 1"]


def test_rails_that_are_not_connected_are_two_subnets() -> None:
    found, _findings = asked(two_rails(answers("mlx5_0", 0, walk(0, 20)) | answers("mlx5_1", 1, walk(1, 21))))
    assert found["mlx5_0:1"].subnet_port_guids == (port_guid(0), port_guid(20))
    assert found["mlx5_1:1"].subnet_port_guids == (port_guid(1), port_guid(21))
    assert found["mlx5_0:1"].subnet_digest != found["mlx5_1:1"].subnet_digest


def test_a_subnet_that_is_too_large_for_the_facts_is_told_by_its_digest() -> None:
    everyone = range(rdma_subnet.GUIDS_KEPT + 1)
    found, _findings = asked(two_rails(answers("mlx5_0", 0, walk(*everyone)) | answers("mlx5_1", 1)))
    port = found["mlx5_0:1"]
    assert (port.subnet_port_guids, port.subnet_port_count) == (None, len(everyone))
    assert port.subnet_digest


def test_the_lists_of_all_subnets_together_are_bounded() -> None:
    many = range(20, 20 + rdma_subnet.GUIDS_KEPT - 2)
    found, _findings = asked(two_rails(answers("mlx5_0", 0, walk(0, *many)) | answers("mlx5_1", 1, walk(1, 21))))
    assert len(found["mlx5_0:1"].subnet_port_guids or ()) == rdma_subnet.GUIDS_KEPT - 1
    assert (found["mlx5_1:1"].subnet_port_guids, found["mlx5_1:1"].subnet_port_count) == (None, 2)


def test_half_of_an_answer_proves_nothing() -> None:
    host = two_rails({})
    commands = answers("mlx5_0", 0, walk(0, 1))
    host.commands = {line: Result(255, text, "ibnetdiscover: iberror: failed\n") for line, text in commands.items()}
    found, findings = asked(host)
    assert (found["mlx5_0:1"].subnet_digest, found["mlx5_0:1"].sm_guids) == (None, None)
    assert findings == ["rdma-subnet-unknown"]


def test_two_nodes_that_see_the_same_subnet_have_the_same_digest() -> None:
    one, _ = asked(two_rails(answers("mlx5_0", 0, walk(0, 1, 20)) | answers("mlx5_1", 1)))
    other, _ = asked(two_rails(answers("mlx5_0", 0, walk(20, 1, 0)) | answers("mlx5_1", 1)))
    assert one["mlx5_0:1"].subnet_digest == other["mlx5_0:1"].subnet_digest


def test_a_walk_that_does_not_find_its_own_port_proves_nothing() -> None:
    found, findings = asked(two_rails(answers("mlx5_0", 0, walk(20, 21)) | answers("mlx5_1", 1, walk(1))))
    assert (found["mlx5_0:1"].subnet_digest, found["mlx5_1:1"].subnet_port_count) == (None, 1)
    assert findings == ["rdma-subnet-unknown"]


def test_without_the_tools_nothing_is_run_and_nothing_is_known() -> None:
    host = two_rails({})
    found, findings = asked(host)
    assert (host.ran, findings, found["mlx5_0:1"].sm_guids) == ([], [], None)


def test_without_the_right_to_ask_the_subnet_is_unknown_and_that_is_said_once() -> None:
    host = two_rails({})
    host.commands = dict.fromkeys((*answers("mlx5_0", 0, ""), *answers("mlx5_1", 1, "")), REFUSED)
    found, findings = asked(host)
    assert findings == ["rdma-subnet-unknown"]
    assert (found["mlx5_0:1"].sm_guids, found["mlx5_0:1"].switch_guid) == (None, None)


def test_another_adapter_at_the_other_end_is_no_switch() -> None:
    commands = answers("mlx5_0", 0, walk(0)) | answers("mlx5_1", 1, walk(1))
    line = "smpquery -C mlx5_0 -P 1 -D nodeinfo 0,1"
    commands[line] = commands[line].replace("Switch", "Channel Adapter")
    found, findings = asked(two_rails(commands))
    assert (found["mlx5_0:1"].switch_guid, findings) == (None, [])


@pytest.mark.parametrize("host", [rdma_hosts.hgx_b200(), rdma_hosts.aws(), rdma_hosts.bonded(), rdma_hosts.two_ports()])
def test_only_ports_that_could_be_in_a_fabric_are_asked(host: RdmaHost) -> None:
    host.commands = {"sminfo": "", "smpquery": "", "ibnetdiscover": ""}
    asked(host)
    named = {line.split(" -C ")[1].split(" -D ")[0] for line in host.ran}
    assert named <= {"mlx5_0 -P 1", "mlx5_1 -P 1", "mlx4_0 -P 1"}


def test_once_the_time_is_over_nothing_more_is_run() -> None:
    host = two_rails(answers("mlx5_0", 0, walk(0, 1)))
    ports, _ = rdma.read_ports(host, 10.0)
    found, findings = rdma_subnet.read_subnets(host, ports or (), 0.0)
    assert (host.ran, found) == ([], ports)
    assert [finding.code for finding in findings] == ["rdma-subnet-unknown"]
