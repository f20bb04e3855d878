# SPDX-License-Identifier: Apache-2.0
"""IMEX on a node (D7): what is read of it, and what keeps the node out of its NVLink domain."""

from __future__ import annotations

import json

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Gpu, GpuFabric, Imex, ImexNode
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import imex, imex_findings
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Result
from tests.support.fake_host import FakeHost

UUID = "0a0b0c0d-0000-4000-8000-00000000000f"
JOINED = (Gpu(0, "GPU-0", fabric=GpuFabric("Completed", "Success", UUID, 7)),)
ALONE = (Gpu(0, "GPU-0", fabric=GpuFabric("Completed", "Success", "00000000-0000-0000-0000-000000000000", 0)),)
NOT_TOLD = (Gpu(0, "GPU-0", fabric=GpuFabric("In Progress")),)
IS_ACTIVE = "systemctl is-active nvidia-imex.service"
TABLE = "nvidia-imex-ctl -N"
JSON = "nvidia-imex-ctl -N -j"
TRIE = "     |-- 10.7.0.12\n        /32 host LOCAL\n"
UNIT = "/usr/lib/systemd/system/nvidia-imex.service"


def domain(*addresses: str, state: str = "UP", **status: str) -> str:
    up = {"status": "CONNECTED"}
    nodes = {
        str(index): {
            "status": status.get(f"node{index}", "READY"),
            "host": address,
            "connections": {str(to): up for to in range(len(addresses))},
        }
        for index, address in enumerate(addresses)
    }
    return json.dumps({"nodes": nodes, "status": state})


def tray(**commands: Result | str) -> FakeHost:
    """A tray in a domain of two, in good order; commands are named `is_active`, `json`, `table`, `status`."""
    lines = {"is_active": IS_ACTIVE, "json": JSON, "table": TABLE, "status": "nvidia-imex-ctl -q"}
    answers: dict[str, Result | str] = {"is_active": "active\n", "json": domain("10.7.0.11", "10.7.0.12"), **commands}
    return FakeHost(
        {
            UNIT: "",
            "/proc/devices": "Character devices:\n195 nvidia\n237 nvidia-caps-imex-channels\n",
            "/proc/net/fib_trie": TRIE,
            "/proc/sys/kernel/hostname": "tray-c.example.net\n",
            "/etc/nvidia-imex/nodes_config.cfg": "10.7.0.11\n10.7.0.12\n",
            "/dev/nvidia-caps-imex-channels/channel0": "",
        },
        commands={lines[name]: answer for name, answer in answers.items()},
    )


def read(host: FakeHost) -> Imex:
    found, findings = imex.read_imex(host, 10.0)
    assert found is not None
    assert findings == ()
    return found


def judged(found: Imex | None, gpus: tuple[Gpu, ...] | None = JOINED) -> list[str]:
    findings = imex_findings.judge(found, gpus)
    assert {finding.severity for finding in findings} <= {"warn", "info"}
    return [finding.code for finding in findings]


def test_a_machine_without_imex_costs_no_command_and_has_no_finding() -> None:
    host = FakeHost({"/proc/devices": "Character devices:\n195 nvidia\n236 nvidia-caps\n"})
    assert imex.read_imex(host, 10.0) == (None, ())
    assert host.ran == []
    assert judged(None, ALONE) == []


def test_a_tray_in_good_order_is_told_whole_and_gives_no_finding() -> None:
    found = read(tray())
    assert found == Imex(
        active=True,
        domain_state="UP",
        nodes=(ImexNode("10.7.0.11", "READY", local=False), ImexNode("10.7.0.12", "READY", local=True)),
        channels=(0,),
        configured=("10.7.0.11", "10.7.0.12"),
        unconnected=0,
        installed=True,
        service_state="active",
        daemon_status="READY",
        listed=True,
        channel_count=1,
        channel_major=237,
    )
    assert judged(found) == []


def test_a_tool_that_knows_no_json_is_asked_for_its_table() -> None:
    table = (
        "Nodes:\nNode #0   - tray-b - READY - Version: 580.1\nNode #1   * tray-x *  - READY - Version: 580.1\n"
        " Nodes From\\To  0   1\n 0 C N\n 1 C C\nDomain State: UP\n"
    )
    found = read(tray(json=Result(255, "Usage: nvidia-imex-ctl ...", ""), table=table))
    assert [(node.address, node.local) for node in found.nodes] == [("tray-b", False), ("tray-x", True)]
    assert (found.domain_state, found.unconnected, found.listed) == ("UP", 1, True)


def test_a_node_finds_itself_by_host_name_with_or_without_domain() -> None:
    found = read(tray(json=domain("tray-b", "TRAY-C")))
    assert [(node.address, node.local) for node in found.nodes] == [("tray-b", False), ("TRAY-C", True)]


def test_where_others_names_leave_it_open_whether_this_node_is_listed_is_unknown() -> None:
    found = read(tray(json=domain("tray-b", "10.7.0.99")))
    assert (found.listed, {node.local for node in found.nodes}) == (None, {None})
    assert "imex-not-listed" not in judged(found)


def test_a_stopped_service_is_a_warning_and_its_tool_is_not_asked() -> None:
    host = tray(is_active=Result(3, "inactive\n", ""))
    found = read(host)
    assert (found.active, found.domain_state, found.service_state) == (False, None, "inactive")
    assert host.ran == [IS_ACTIVE]
    assert judged(found) == ["imex-down"]


def test_a_stopped_service_does_not_matter_to_cards_that_nothing_joins() -> None:
    found = read(tray(is_active=Result(3, "failed\n", "")))
    assert judged(found, ALONE) == []
    assert judged(found, ()) == []
    assert judged(found, NOT_TOLD) == []
    assert judged(found, None) == []


def test_cards_of_a_domain_without_imex_are_a_warning() -> None:
    assert judged(None, JOINED) == ["imex-down"]
    only_driver = FakeHost({"/proc/devices": "237 nvidia-caps-imex-channels\n"})
    found = read(only_driver)
    assert (found.installed, found.active, only_driver.ran) == (False, None, [])
    assert judged(found, JOINED) == ["imex-down", "imex-channel-missing"]
    assert judged(found, ALONE) == []


def test_a_daemon_that_cannot_be_asked_leaves_its_domain_unknown_and_says_so() -> None:
    refused = Result(255, "", "Failed to connect to command service\n")
    found, findings = imex.read_imex(tray(json=refused, table=refused, status="WAITING_FOR_PEERS\n"), 10.0)
    assert found is not None
    assert (found.active, found.domain_state, found.nodes, found.unconnected) == (True, None, (), None)
    assert found.daemon_status == "WAITING_FOR_PEERS"
    assert [finding.code for finding in findings] == ["imex-unreadable"]
    assert findings[0].evidence == ("exit status 255", "Failed to connect to command service")
    assert judged(found) == []


def test_a_service_manager_that_cannot_be_asked_leaves_the_service_unknown() -> None:
    found = read(tray(is_active=Result(1, "", "Failed to connect to bus")))
    assert (found.active, found.service_state, found.domain_state) == (None, None, "UP")
    assert judged(found) == []


def test_a_degraded_domain_names_the_nodes_that_are_not_ready() -> None:
    host = tray(json=domain("10.7.0.11", "10.7.0.12", state="DEGRADED", node0="UNAVAILABLE"))
    (finding,) = imex_findings.judge(read(host), JOINED)
    assert (finding.code, finding.evidence) == ("imex-degraded", ("10.7.0.11 UNAVAILABLE",))


def test_a_domain_matters_where_cards_are_joined_or_may_be() -> None:
    host = tray(json=domain("10.7.0.11", "10.7.0.12", state="DOWN"))
    host.files.pop("/dev/nvidia-caps-imex-channels/channel0")
    found = read(host)
    assert judged(found, ALONE) == []
    assert judged(found, NOT_TOLD) == ["imex-degraded", "imex-channel-missing"]
    assert judged(found, None) == ["imex-degraded", "imex-channel-missing"]


def test_a_channel_matters_once_a_daemon_runs_or_cards_are_joined() -> None:
    host = tray(is_active=Result(3, "inactive\n", ""))
    host.files.pop("/dev/nvidia-caps-imex-channels/channel0")
    assert judged(read(host), NOT_TOLD) == []
    assert judged(read(host), JOINED) == ["imex-down", "imex-channel-missing"]


def test_a_node_that_is_not_in_its_own_list_is_a_warning() -> None:
    found = read(tray(json=domain("10.7.0.11", "10.7.0.13")))
    assert found.listed is False
    assert judged(found) == ["imex-not-listed", "imex-config-mismatch"]


def test_a_list_that_was_changed_after_the_daemon_read_it_is_a_warning() -> None:
    host = tray()
    host.files["/etc/nvidia-imex/nodes_config.cfg"] = "10.7.0.11\n10.7.0.12\n10.7.0.14\n"
    (finding,) = imex_findings.judge(read(host), JOINED)
    assert (finding.code, finding.evidence) == ("imex-config-mismatch", ("10.7.0.14 is in the file only",))


def test_the_node_list_is_read_where_the_configuration_says() -> None:
    host = tray()
    host.files["/etc/nvidia-imex/config.cfg"] = "IMEX_NODE_CONFIG_FILE=/shared/nodes.cfg\n"
    host.files["/shared/nodes.cfg"] = "10.7.0.12\n"
    assert read(host).configured == ("10.7.0.12",)
    host.files.pop("/shared/nodes.cfg")
    assert read(host).configured is None
    assert judged(read(host)) == []


@pytest.mark.parametrize("channels", [(), (1, 2)])
def test_a_missing_channel_0_is_a_warning_with_the_command_that_makes_it(channels: tuple[int, ...]) -> None:
    host = tray()
    host.files.pop("/dev/nvidia-caps-imex-channels/channel0")
    host.files |= {f"/dev/nvidia-caps-imex-channels/channel{number}": "" for number in channels}
    found = read(host)
    assert (found.channels, found.channel_count) == (channels, len(channels))
    (finding,) = imex_findings.judge(found, JOINED)
    assert finding.code == "imex-channel-missing"
    assert "mknod /dev/nvidia-caps-imex-channels/channel0 c 237 0" in (finding.remedy or "")


def test_of_two_thousand_channels_the_lowest_are_told_and_all_are_counted() -> None:
    host = tray()
    host.files |= {f"/dev/nvidia-caps-imex-channels/channel{number}": "" for number in range(2048)}
    found = read(host)
    assert (found.channels, found.channel_count) == (tuple(range(16)), 2048)


def test_once_the_time_is_over_nothing_is_run() -> None:
    host = tray()
    found, findings = imex.read_imex(host, 0.0)
    assert found is not None
    assert (host.ran, found.active, found.channels) == ([], None, (0,))
    assert [finding.code for finding in findings] == ["imex-unreadable"]
