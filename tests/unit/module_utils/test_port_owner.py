# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from ansible_collections.llmgw.fleet.plugins.module_utils.port_owner import Holder, holder, owns
from tests.support.fake_host import FakeHost

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
GROUP = "/app.slice/llmgw-chat.0.0.service"


def line(address: str, port: int, inode: int, state: str = "0A") -> str:
    queues = "00000000:00000000 00:00000000 00000000"
    return f"   0: {address}:{port:04X} 00000000:0000 {state} {queues}     0        0 {inode} 1\n"


def machine(table: str, table6: str = "") -> FakeHost:
    """Processes 7 and 8 (in the group and below it) hold sockets 70 and 80, process 9 (elsewhere) socket 90."""
    files = {
        "/proc/net/tcp": HEAD + table,
        "/proc/net/tcp6": HEAD + table6,
        "/proc/7/cgroup": f"0::{GROUP}\n",
        "/proc/8/cgroup": f"12:cpuset:/\n1:name=systemd:{GROUP}/payload\n0::/\n",
        "/proc/9/cgroup": f"0::{GROUP}-other\n",
    }
    links = {"/proc/7/fd/3": "socket:[70]", "/proc/8/fd/4": "socket:[80]", "/proc/9/fd/5": "socket:[90]"}
    return FakeHost(files, links=links)


pytestmark = pytest.mark.skipif(sys.byteorder != "little", reason="the tables here are of a little-endian machine")


@pytest.mark.parametrize(("inode", "mine"), [(70, True), (80, True), (90, False)])
def test_the_socket_must_be_held_by_a_process_of_the_group_or_below_it(inode: int, mine: bool) -> None:
    assert owns(machine(line("0100007F", 18000, inode)), GROUP, 7, "127.0.0.1", 18000) is mine


@pytest.mark.parametrize(
    ("table", "table6"),
    [
        (line("00000000", 18000, 70), ""),
        ("", line("0" * 32, 18000, 70)),
        ("", line("0000000000000000FFFF00000100007F", 18000, 70)),
    ],
)
def test_wildcards_and_mapped_addresses_take_the_connection_too(table: str, table6: str) -> None:
    assert owns(machine(table, table6), GROUP, 7, "127.0.0.1", 18000) is True


def test_a_listener_on_another_address_or_port_or_in_another_state_is_no_listener() -> None:
    for table in (line("0200007F", 18000, 90), line("0100007F", 18001, 90), line("0100007F", 18000, 90, "01")):
        assert owns(machine(table), GROUP, 7, "127.0.0.1", 18000) is None


def test_what_cannot_be_seen_is_unknown() -> None:
    assert owns(FakeHost(), GROUP, 7, "127.0.0.1", 18000) is None
    assert owns(machine(line("0100007F", 18000, 90)), "", 7, "127.0.0.1", 18000) is None
    hidden = FakeHost(
        {
            "/proc/net/tcp": HEAD + line("0100007F", 18000, 90),
            "/proc/7/cgroup": f"0::{GROUP}\n",
            "/proc/9/cgroup": "0::/\n",
        }
    )
    assert owns(hidden, GROUP, 7, "127.0.0.1", 18000) is None


def test_a_name_instead_of_an_address_matches_by_port() -> None:
    assert owns(machine(line("0200007F", 18000, 70)), GROUP, 7, "node1.example", 18000) is True


def test_real_tables_tell_this_process_from_a_child_in_the_same_group() -> None:
    group = Path("/proc/self/cgroup").read_text().strip().splitlines()[-1].split(":", 2)[2]
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert owns(Host(), group, os.getpid(), "127.0.0.1", port) is True
        assert owns(Host(), "/no/such/group", None, "127.0.0.1", port) is False


def test_the_holder_of_a_port_is_named_with_its_unit() -> None:
    host = machine(line("0100007F", 18000, 80))
    host.files["/proc/8/comm"] = "python3\n"
    found = holder(host, "127.0.0.1", 18000)
    assert found is not None
    assert (found.pid, found.name, str(found)) == (8, "python3", "python3 (process 8)")
    assert "llmgw-chat.0.0.service" in found.units
    assert holder(host, "127.0.0.1", 18001) is None


def test_a_holder_that_cannot_be_seen_is_still_a_holder() -> None:
    found = holder(machine(line("00000000", 18000, 99)), "10.0.0.1", 18000)
    assert found == Holder()
    assert str(found) == "a process of another user"


LISTEN = """
import socket
listener = socket.socket(socket.AF_INET6)
listener.bind(("::1", 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
input()
"""


def test_an_ipv6_listener_is_found() -> None:
    argv = [sys.executable, "-c", LISTEN]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = child.stdout.readline()
        if not said:
            pytest.skip("this machine has no IPv6")
        assert owns(Host(), "/no/such/group", child.pid, "::1", int(said)) is True
        child.communicate("\n", timeout=10)
