# SPDX-License-Identifier: BSD-2-Clause
"""What a machine is (D10): operating system, service manager, ports, interfaces, memory, processors.

Private to llmgw. Each fact is a read through Host and a pure function from text; what a text does not say is None.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Iterable

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import network
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import meminfo
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_SYSTEMCTL_S = 5.0
_JOURNAL_SOCKET = "/run/systemd/journal/stdout"
_LISTEN = "0A"
_KIB = 1024
# What engines choose their kernels by.
_VECTOR = {"sse4_2", "f16c", "fma", "avx", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512vl"}
_MATRIX = {"avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16"}
_ARM = {"asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2", "svei8mm", "svebf16", "sme", "sme2"}
_FLAGS = frozenset(_VECTOR | _MATRIX | _ARM)


def read_system(host: Host, scope: str) -> contract.System:
    """The operating system as units of this scope meet it."""
    release = os_release(_text(host, "/etc/os-release") or _text(host, "/usr/lib/os-release"))
    kernel = "/proc/sys/kernel"
    return contract.System(
        hostname=_line(host, f"{kernel}/hostname"),
        os=release.get("ID"),
        os_version=release.get("VERSION_ID"),
        kernel=_line(host, f"{kernel}/osrelease"),
        architecture=host.machine(),
        boot_id=_line(host, f"{kernel}/random/boot_id"),
        booted_at=boot_time(_text(host, "/proc/stat")),
        clock=host.clock(),
        python_version=host.python_version(),
        systemd_version=systemd_version(host.run(("systemctl", "--version"), _SYSTEMCTL_S).stdout),
        scope=scope,
        # A user manager may be one that started without a journal beside it, so its units log to files.
        journal=scope == "system" and host.exists(_JOURNAL_SOCKET),
        ephemeral_ports=port_range(_text(host, "/proc/sys/net/ipv4/ip_local_port_range")),
        listening_ports=listening_ports([host.read("/proc/net/tcp"), host.read("/proc/net/tcp6")]),
        interfaces=network.read_interfaces(host),
    )


def read_memory(host: Host) -> contract.Memory | None:
    """Host memory; None when the kernel does not tell."""
    text = _text(host, "/proc/meminfo")
    return memory(text) if text else None


def read_cpu(host: Host) -> contract.Cpu | None:
    """Processors; None when the kernel does not tell."""
    text = _text(host, "/proc/cpuinfo")
    if not text:
        return None
    nodes = _line(host, "/sys/devices/system/node/has_cpu") or _line(host, "/sys/devices/system/node/online")
    return cpu(text, _topology(host) if "physical id" not in text else (), count_listed(nodes))


def os_release(text: str) -> dict[str, str]:
    """The variables of os-release(5), unquoted."""
    found = {}
    for line in text.splitlines():
        name, separator, value = line.strip().partition("=")
        if separator and not name.startswith("#"):
            found[name] = value.strip("\"'")
    return found


def boot_time(text: str) -> float | None:
    """When the machine booted, in Unix seconds, from /proc/stat."""
    found = re.search(r"^btime ([0-9]{1,12})$", text, re.MULTILINE)
    return float(found.group(1)) if found else None


def systemd_version(text: str) -> int | None:
    """The number in the first line of `systemctl --version`: `systemd 252 (252.39-1~deb12u1)` is 252."""
    found = re.match(r"systemd ([0-9]{1,6})\b", text)
    return int(found.group(1)) if found else None


def port_range(text: str) -> tuple[int, int] | None:
    """First and last port that the kernel gives to outgoing connections."""
    found = re.fullmatch(r"\s*([0-9]{1,5})\s+([0-9]{1,5})\s*", text)
    return (int(found.group(1)), int(found.group(2))) if found else None


def listening_ports(tables: Iterable[bytes | None]) -> tuple[int, ...] | None:
    """TCP ports somebody listens on, ascending, from /proc/net/tcp and tcp6; None when neither could be read."""
    ports = set()
    known = False
    for table in tables:
        if table is None:
            continue
        known = True
        for line in table.decode("ascii", "replace").splitlines()[1:]:
            found = re.match(r"\s*[0-9]+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} ([0-9A-F]{2}) ", line)
            if found and found.group(2) == _LISTEN:
                ports.add(int(found.group(1), 16))
    return tuple(sorted(ports)) if known else None


def memory(text: str) -> contract.Memory:
    """Host memory from /proc/meminfo; unknown where that is no meminfo.

    What is available the kernel itself estimates, since 3.14: nobody else knows what of its caches it would give up.
    """
    try:
        found = meminfo.read(text)
    except Unreadable:
        return contract.Memory()
    return contract.Memory(_bytes(found.mem_total_kb), _bytes(found.mem_available_kb))


def cpu(text: str, topology: Iterable[tuple[str, str]], numa_nodes: int | None) -> contract.Cpu:
    """Processors from /proc/cpuinfo; `topology` has (package, core) of each thread where cpuinfo does not say."""
    blocks = [_fields(block) for block in re.split(r"\n\s*\n", text)]
    threads = [block for block in blocks if block.get("processor", "").isdigit()]
    places = list(topology) or [
        (block["physical id"], block["core id"]) for block in threads if "physical id" in block and "core id" in block
    ]
    first = threads[0] if threads else {}
    flags = first.get("flags", first.get("Features"))
    return contract.Cpu(
        model=first.get("model name"),
        sockets=len({package for package, _core in places}) or None,
        cores=len(set(places)) or None,
        threads=len(threads) or None,
        numa_nodes=numa_nodes,
        flags=None if flags is None else tuple(sorted(_FLAGS.intersection(flags.split()))),
    )


def count_listed(text: str | None) -> int | None:
    """How many numbers a kernel list has: `0-3,8` is 5."""
    if text is None or not re.fullmatch(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*", text):
        return None
    total = 0
    for part in text.split(","):
        first, _separator, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total


def _topology(host: Host) -> list[tuple[str, str]]:
    """(package, core) of each thread, from sysfs; virtual machines that hide it say -1."""
    cpus = "/sys/devices/system/cpu"
    found = []
    for name in host.list(cpus) or ():
        if re.fullmatch(r"cpu[0-9]+", name):
            package = _line(host, f"{cpus}/{name}/topology/physical_package_id")
            core = _line(host, f"{cpus}/{name}/topology/core_id")
            if package is not None and core is not None and package != "-1":
                found.append((package, core))
    return found


def _fields(block: str) -> dict[str, str]:
    fields = {}
    for line in block.splitlines():
        name, separator, value = line.partition(":")
        if separator:
            fields[name.strip()] = value.strip()
    return fields


def _bytes(kibibytes: int | None) -> int | None:
    return None if kibibytes is None else kibibytes * _KIB


def _text(host: Host, path: str) -> str:
    return (host.read(path) or b"").decode("utf-8", "replace")


def _line(host: Host, path: str) -> str | None:
    return _text(host, path).strip() or None
