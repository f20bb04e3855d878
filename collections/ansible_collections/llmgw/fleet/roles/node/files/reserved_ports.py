# SPDX-License-Identifier: Apache-2.0
"""Keeps the kernel from handing the engines' ports to outgoing connections, where it would; prints one line of JSON.

Arguments: the range as FIRST-LAST, the file of settings, and `check` to change nothing. Ports that are reserved already
stay so. Where no port of the range is handed out, the file is removed. `changed` says what was or would be done, `note`
what could not be: in a container the kernel's settings may be for reading only, and the file then counts from the next
boot of a machine that has them.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Set, Tuple

KERNEL = Path("/proc/sys/net/ipv4")
HIGHEST = 65535


def ports(text: str) -> Set[int]:
    """The ports of a list as the kernel writes it: `8080,9000-9010`. Raises ValueError for anything else."""
    found: Set[int] = set()
    for part in filter(None, text.strip().split(",")):
        begin, separator, end = part.partition("-")
        first, last = int(begin), int(end if separator else begin)
        if not 1 <= first <= last <= HIGHEST:
            raise ValueError(f"{part!r} is no range of ports")
        found.update(range(first, last + 1))
    return found


def listed(numbers: Iterable[int]) -> str:
    """Ports as the kernel writes them."""
    runs: List[Tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def reserve(wanted: Set[int], file: Path, kernel: Path, *, check: bool) -> Dict[str, object]:
    """Makes kernel and file reserve the ports, if they must, and tells what changed. Raises OSError and ValueError."""
    first, last = map(int, (kernel / "ip_local_port_range").read_text().split())
    if wanted.isdisjoint(range(first, last + 1)):
        there = file.exists()
        if there and not check:
            file.unlink()
        return {"changed": there, "note": None}
    setting = kernel / "ip_local_reserved_ports"
    now = ports(setting.read_text())
    all_of_them = listed(now | wanted)
    content = (
        "# Written by llmgw. Edits made here are replaced by the next run of llmgw.fleet.node.\n"
        "# Ports of engines, which the kernel else gives to outgoing connections, and what was reserved before.\n"
        f"net.ipv4.ip_local_reserved_ports = {all_of_them}\n"
    )
    new_file = not file.exists() or file.read_text() != content
    if new_file and not check:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        file.chmod(0o644)
    note: Optional[str] = None
    new_setting = not wanted <= now
    if new_setting and not os.access(setting, os.W_OK):
        new_setting = False
        note = f"{setting} cannot be written here, so the ports {listed(wanted)} are not reserved before {file} is read"
    if new_setting and not check:
        setting.write_text(f"{all_of_them}\n")
    return {"changed": new_file or new_setting, "note": note}


def main() -> None:
    """Does it and prints what it did; ends with a sentence and status 1 where it cannot."""
    try:
        wanted = ports(sys.argv[1])
    except ValueError:
        wanted = set()
    if not wanted:
        sys.exit(f"llmgw_port_range is {sys.argv[1]!r}: write the first and the last port, such as 18000-18999")
    try:
        done = reserve(wanted, Path(sys.argv[2]), KERNEL, check="check" in sys.argv[3:])
    except (OSError, ValueError) as error:
        sys.exit(f"the ports of engines cannot be kept from outgoing connections: {error}")
    sys.stdout.write(json.dumps(done) + "\n")


if __name__ == "__main__":
    main()
