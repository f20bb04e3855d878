# SPDX-License-Identifier: Apache-2.0
"""What the kernel makes of the lists of networks and devices, where it can filter by them."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fleets import profile
from tests.unit.units.real_manager import Units
from tests.unit.units.unit_cases import Case, alone, cards, gpus

PROGRAM = """\
import json, os, socket
answers = {{}}
for host, port in {targets!r}:
    with socket.socket() as one:
        one.settimeout(3)
        try:
            answers[host] = one.connect_ex((host, port)) == 0
        except TimeoutError:
            answers[host] = False
for path in {devices!r}:
    try:
        os.close(os.open(path, os.O_RDONLY))
        answers[path] = True
    except OSError:
        answers[path] = False
with open({answer!r}, "w") as file:
    json.dump(answers, file)
"""
LOCAL = "127.0.0.1"
DEVICES = ("/dev/null", "/dev/urandom", "/dev/kmsg")


@pytest.fixture(scope="module")
def address() -> str:
    """An address of this machine that is not local to it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("203.0.113.1", 9))
            return str(one.getsockname()[0])
        except OSError:
            pytest.skip("this machine has no address but the local one")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.create_server(("0.0.0.0", 0), backlog=50) as server:
        yield server.getsockname()[1]


def lines_of(case: Case, *prefixes: str) -> list[str]:
    return [line for line in case.unit.text.splitlines() if line.startswith(prefixes)]


def answers(
    manager: Units, folder: Path, lines: dict[str, list[str]], targets: list[tuple[str, int]]
) -> dict[str, dict[str, bool]]:
    """What a process could reach and open under each of the settings."""
    texts = {}
    for name, settings in lines.items():
        program = folder / f"{name}.py"
        answer = str(folder / name)
        program.write_text(PROGRAM.format(targets=targets, devices=DEVICES, answer=answer), encoding="utf-8")
        start = f"ExecStart={sys.executable} {program}"
        texts[f"llmgw-{name}.0.0.service"] = "\n".join(["[Service]", "Type=oneshot", start, *settings, ""])
    manager.run(texts)
    return {name: json.loads((folder / name).read_text(encoding="utf-8")) for name in lines}


def test_only_who_is_on_the_list_and_the_machine_itself_is_reached(
    manager: Units, tmp_path: Path, address: str, port: int
) -> None:
    lines = {
        "control": ["IPAddressDeny=any"],
        "stranger": lines_of(alone(profile(), access=("10.9.0.1",)), "IPAddress"),
        "named": lines_of(alone(profile(), access=(f"{address}/32",)), "IPAddress"),
    }
    found = answers(manager, tmp_path, lines, [(LOCAL, port), (address, port)])
    if found["control"][address]:
        pytest.skip("the kernel does not filter addresses here")
    assert (found["stranger"][LOCAL], found["stranger"][address]) == (True, False)
    assert (found["named"][LOCAL], found["named"][address]) == (True, True)


def test_only_devices_that_were_given_are_opened(manager: Units, tmp_path: Path) -> None:
    lines = {
        "control": ["DevicePolicy=strict", "DeviceAllow=/dev/null rw"],
        "open": [],
        "closed": lines_of(alone(gpus("vllm", 1), devices=cards(1)), "Device"),
    }
    found = answers(manager, tmp_path, lines, [])
    if found["control"]["/dev/urandom"] or not found["open"]["/dev/kmsg"]:
        pytest.skip("the kernel does not filter devices here")
    assert found["closed"] == {"/dev/null": True, "/dev/urandom": True, "/dev/kmsg": False}
