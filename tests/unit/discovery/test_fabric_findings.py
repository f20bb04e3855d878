# SPDX-License-Identifier: Apache-2.0
"""Findings about RDMA ports: what is cabled and idle, slow, or flapping; none of it blocks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding, RdmaPort
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import fabric_findings, rdma
from tests.support import rdma_hosts
from tests.support.fake_host import FakeHost

PORT = RdmaPort(
    "mlx5_0",
    1,
    link_layer="InfiniBand",
    kind="infiniband",
    state="ACTIVE",
    physical_state="LinkUp",
    active=True,
    rate_gbps=400.0,
    board_id="MT_0000000777",
    virtual_function=False,
    switch_management=False,
    link_downed=1,
)


def judged(*ports: RdmaPort) -> list[tuple[str, str, str | None]]:
    return [(finding.code, finding.severity, finding.subject) for finding in fabric_findings.judge(ports)]


def of_host(host: FakeHost) -> tuple[Finding, ...]:
    ports, _ = rdma.read_ports(host, 10.0)
    return fabric_findings.judge(ports or ())


def test_a_healthy_port_gives_no_finding() -> None:
    assert judged(PORT, replace(PORT, device="mlx5_1")) == []


def test_a_cabled_port_that_no_subnet_manager_has_set_up_is_a_warning() -> None:
    port = replace(PORT, state="INIT", active=False)
    assert judged(port) == [("rdma-no-subnet-manager", "warn", "mlx5_0:1")]


def test_a_port_without_cable_is_only_told() -> None:
    port = replace(PORT, state="DOWN", physical_state="Polling", active=False)
    assert judged(port) == [("rdma-port-down", "info", "mlx5_0:1")]


def test_a_roce_port_in_init_has_no_subnet_manager_to_wait_for() -> None:
    port = replace(PORT, kind="roce", link_layer="Ethernet", state="INIT", active=False)
    assert judged(port) == [("rdma-port-down", "info", "mlx5_0:1")]


def test_a_port_slower_than_others_on_its_model_of_board_is_a_warning() -> None:
    slow = replace(PORT, device="mlx5_1", rate_gbps=100.0)
    other_board = replace(PORT, device="mlx5_2", rate_gbps=25.0, board_id="MT_0000000555")
    not_active = replace(PORT, device="mlx5_3", rate_gbps=10.0, active=False, state="DOWN")
    codes = judged(PORT, slow, other_board, not_active)
    assert codes == [("rdma-port-down", "info", "mlx5_3:1"), ("rdma-rate-low", "warn", "mlx5_1:1")]


@pytest.mark.parametrize(
    ("changed", "code"), [({"link_downed": 10}, "rdma-link-flaps"), ({"symbol_errors": 1000}, "rdma-symbol-errors")]
)
def test_many_errors_are_told_and_few_are_not(changed: dict[str, int], code: str) -> None:
    few = {name: number - 1 for name, number in changed.items()}
    assert judged(replace(PORT, **changed)) == [(code, "info", "mlx5_0:1")]  # type: ignore[arg-type]
    assert judged(replace(PORT, **few)) == []  # type: ignore[arg-type]


def test_a_node_with_both_link_layers_is_told_which_ports_are_which() -> None:
    (finding,) = of_host(rdma_hosts.hgx_h100())
    assert (finding.code, finding.severity) == ("rdma-mixed-link-layers", "info")
    assert finding.evidence[1] == "roce: mlx5_4:1, mlx5_5:1"


def test_what_is_no_network_gives_no_finding() -> None:
    management = replace(PORT, switch_management=True, active=False, state="DOWN", link_downed=99)
    function = replace(PORT, virtual_function=True, active=False, state="DOWN")
    efa = replace(PORT, kind="efa", active=False, state="DOWN")
    assert judged(management, function, efa) == []
    assert of_host(rdma_hosts.hgx_b200()) == ()


def test_ports_whose_role_only_root_can_tell_are_named_once() -> None:
    ports = [replace(PORT, device=f"mlx5_{number}", switch_management=None) for number in range(3)]
    (finding,) = fabric_findings.judge(ports)
    assert (finding.code, finding.severity, len(finding.evidence)) == ("rdma-role-unknown", "info", 3)


def test_a_roce_port_that_nothing_can_reach_is_told() -> None:
    port = replace(PORT, kind="roce", link_layer="Ethernet", gids_known=True)
    assert judged(port) == [("rdma-no-gid", "info", "mlx5_0:1")]
    assert judged(replace(port, gids=("fe80::1",))) == []
    assert judged(replace(port, gids_known=False)) == []


def test_no_finding_about_a_fabric_blocks() -> None:
    bad = replace(PORT, state="INIT", active=False, link_downed=99, symbol_errors=10**6)
    assert {severity for _code, severity, _subject in judged(bad)} == {"warn", "info"}
