# SPDX-License-Identifier: Apache-2.0
"""The system, its memory and its processors, from the kernel's texts; what a text lacks is unknown."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Cpu, Memory, NetworkInterface, System
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import system_facts
from tests.support.fake_host import FakeHost

TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 ffff 100 0 0 10 0
   1: 0100007F:0016 0100007F:A1B2 01 00000000:00000000 00:00000000 00000000     0        0 2 1 ffff 100 0 0 10 0
"""
TCP6 = """  sl  local_address                         remote_address                        st tx_queue rx_queue
   0: 00000000000000000000000000000000:4650 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000
"""
X86 = """processor	: {thread}
model name	: Example CPU @ 2.0GHz
physical id	: {package}
core id		: {core}
flags		: fpu sse4_2 avx2 avx512f amx_tile unimportant

"""
ARM = "processor\t: {thread}\nFeatures\t: fp asimd sve2 bf16\nCPU part\t: 0xd4f\n\n"
FILES = {
    "/etc/os-release": 'NAME="Debian GNU/Linux"\nID=debian\nVERSION_ID="12"\n# no\n',
    "/proc/sys/kernel/hostname": "n1\n",
    "/proc/sys/kernel/osrelease": "6.1.0-28-amd64\n",
    "/proc/sys/kernel/random/boot_id": "5e45229e-1d0d-409b-be63-b62d97683061\n",
    "/proc/stat": "cpu  1 2 3\nbtime 1699990000\nprocesses 5\n",
    "/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
    "/proc/net/tcp": TCP,
    "/proc/net/tcp6": TCP6,
    "/run/systemd/journal/stdout": "",
}
SYSTEMCTL = {
    "systemctl --version": "systemd 252 (252.39-1~deb12u1)\n+PAM +AUDIT\n",
    "ip -j address": '[{"ifname":"eth0","flags":["UP","LOWER_UP"],"addr_info":[{"local":"10.0.0.1"}]}]',
}


def test_a_system_is_read_whole() -> None:
    assert system_facts.read_system(FakeHost(FILES, commands=SYSTEMCTL), "system") == System(
        hostname="n1",
        os="debian",
        os_version="12",
        kernel="6.1.0-28-amd64",
        architecture="x86_64",
        boot_id="5e45229e-1d0d-409b-be63-b62d97683061",
        booted_at=1699990000.0,
        clock=1_700_000_000.0,
        python_version="3.8.18",
        systemd_version=252,
        scope="system",
        journal=True,
        ephemeral_ports=(32768, 60999),
        listening_ports=(8080, 18000),
        interfaces=(NetworkInterface("eth0", ("10.0.0.1",), up=True),),
    )


def test_a_system_that_tells_nothing_is_unknown_but_for_what_python_knows() -> None:
    found = system_facts.read_system(FakeHost(), "system")
    assert (found.hostname, found.os, found.kernel, found.boot_id, found.booted_at) == (None, None, None, None, None)
    assert (found.systemd_version, found.ephemeral_ports, found.listening_ports, found.journal) == (
        None,
        None,
        None,
        False,
    )


def test_units_of_a_user_have_no_journal() -> None:
    assert system_facts.read_system(FakeHost(FILES), "user").journal is False


def test_os_release_is_found_in_its_second_place() -> None:
    assert system_facts.read_system(FakeHost({"/usr/lib/os-release": "ID=fedora\n"}), "system").os == "fedora"


def test_memory_is_in_bytes_and_an_old_kernel_does_not_tell_what_is_available() -> None:
    assert system_facts.memory("MemTotal:  16274424 kB\nMemFree: 5 kB\nMemAvailable:   13371944 kB\n") == Memory(
        16274424 * 1024, 13371944 * 1024
    )
    assert system_facts.memory("MemTotal:  1000 kB\nMemFree: 5 kB\n") == Memory(1000 * 1024, None)
    assert system_facts.memory("MemTotal: lots\n") == Memory(None, None)
    assert system_facts.read_memory(FakeHost()) is None


def test_hyperthreads_are_threads_of_one_core() -> None:
    places = [(0, 0), (0, 1), (1, 0), (1, 1)] * 2
    text = "".join(
        X86.format(thread=thread, package=package, core=core) for thread, (package, core) in enumerate(places)
    )
    files = {"/proc/cpuinfo": text, "/sys/devices/system/node/has_cpu": "0-1\n"}
    assert system_facts.read_cpu(FakeHost(files)) == Cpu(
        model="Example CPU @ 2.0GHz",
        sockets=2,
        cores=4,
        threads=8,
        numa_nodes=2,
        flags=("amx_tile", "avx2", "avx512f", "sse4_2"),
    )


def test_processors_whose_cpuinfo_has_no_places_are_counted_by_sysfs() -> None:
    files = {"/proc/cpuinfo": "".join(ARM.format(thread=thread) for thread in range(2))}
    for thread in range(2):
        folder = f"/sys/devices/system/cpu/cpu{thread}/topology"
        files |= {f"{folder}/physical_package_id": "0\n", f"{folder}/core_id": f"{thread}\n"}
    found = system_facts.read_cpu(FakeHost(files))
    assert found == Cpu(None, 1, 2, 2, None, ("asimd", "bf16", "sve2"))


def test_a_virtual_machine_that_hides_its_sockets_has_unknown_ones() -> None:
    folder = "/sys/devices/system/cpu/cpu0/topology"
    files = {"/proc/cpuinfo": ARM.format(thread=0), f"{folder}/physical_package_id": "-1\n", f"{folder}/core_id": "0\n"}
    found = system_facts.read_cpu(FakeHost(files))
    assert found is not None
    assert (found.sockets, found.cores, found.threads) == (None, None, 1)


@pytest.mark.parametrize(
    ("text", "number"), [("0", 1), ("0-1", 2), ("0-3,8", 5), ("", None), (None, None), ("x", None)]
)
def test_kernel_lists_are_counted(text: str | None, number: int | None) -> None:
    assert system_facts.count_listed(text) == number
