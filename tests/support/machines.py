# SPDX-License-Identifier: Apache-2.0
"""Whole machines that do not exist, as the programs on them would answer: for real hosts that have no cards.

A program stands in for nvidia-smi and prints what a driver would; nothing of it is measured on real cards.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.support import topo_texts
from tests.support.fake_pynvml_machine import Card, Fabric, Instance, Link, Machine, commands

STAND_IN = Path(__file__).parents[1] / "fixtures/nvidia-smi"
_ANSWERS = "/etc/stand-in/nvidia-smi"
_LIBRARY = "/opt/stand-in"
CLUSTER = "0a0b0c0d-1111-4222-8333-444455556666"
CLIQUE = 32766
_SWITCHED = tuple(Link(switch=True) for _link in range(18))
_TRAY_LINKS = tuple(Link(switch=True, mbps=53125) for _link in range(18))


@dataclass(frozen=True)
class Described:
    """A machine and what `nvidia-smi topo -m` prints on it; `failing` are command lines that end with a status."""

    machine: Machine
    box: topo_texts.Box | None = None
    failing: tuple[tuple[str, int], ...] = ()


def _halves(cards: int, word: str, adapters: tuple[str, ...] = ()) -> topo_texts.Box:
    """A machine with two sockets: half of the cards and adapters at each, the adapters beside their cards."""
    words = topo_texts.uniform(cards, word)
    for card, row in enumerate(words):
        row += [
            "PIX" if card == other else "NODE" if card * 2 // cards == other * 2 // len(adapters) else "SYS"
            for other in range(len(adapters))
        ]
    numa = [str(card * 2 // cards) for card in range(cards)]
    cpus = ["0-31,64-95" if node == "0" else "32-63,96-127" for node in numa]
    return topo_texts.Box(words, adapters, cpus, numa)


def _tray(first: int) -> Machine:
    """Four cards of a rack whose cards are one NVLink domain."""
    fabric = Fabric(cluster=CLUSTER, clique=CLIQUE, summary=1, mask=0b10)
    cards = [
        Card(
            first + number, name="NVIDIA GB200", capability=(10, 0), total_mib=189471, fabric=fabric, links=_TRAY_LINKS
        )
        for number in range(4)
    ]
    return Machine(tuple(cards))


_H100 = tuple(Card(number, fabric=Fabric(), links=_SWITCHED) for number in range(8))
_ADAPTERS = tuple(f"mlx5_{number}" for number in range(8))
HGX_H100 = Described(Machine(_H100), _halves(8, "NV18", _ADAPTERS))
L40S = Described(
    Machine(
        tuple(
            Card(number, name="NVIDIA L40S", capability=(8, 9), total_mib=46068, widths=(16, 16)) for number in range(4)
        )
    ),
    _halves(4, "NODE"),
)
A100_MIG = Described(
    Machine(
        (
            Card(
                0,
                name="NVIDIA A100-SXM4-80GB",
                capability=(8, 0),
                total_mib=81920,
                mig=(True, True),
                utilization=None,
                instances=(
                    Instance(0, (2, 0), "3g.40gb", 40192, 25, 42),
                    Instance(1, (3, 0), "3g.40gb", 40192, 25, 42),
                ),
            ),
            Card(1, name="NVIDIA A100-SXM4-80GB", capability=(8, 0), total_mib=81920),
        )
    ),
    _halves(2, "NV12"),
)
TRAY_1 = Described(_tray(0), _halves(4, "NV18"))
TRAY_2 = Described(_tray(4), _halves(4, "NV18"))
BROKEN = Described(
    Machine(tuple(Card(number, fabric=Fabric(), lost=15 if number == 5 else None) for number in range(8))),
    failing=(("topo -m", 255),),
)


def answers(described: Described) -> dict[str, str]:
    """What nvidia-smi prints, by its arguments with `_` for blanks; `NAME.status` is an exit status other than 0."""
    texts = {line.removeprefix("nvidia-smi "): text for line, text in commands(described.machine).items()}
    if described.box is not None:
        texts["topo -m"] = topo_texts.printed(described.box)
    texts["nvlink -s"] = "".join(_links(card) for card in described.machine.cards if card.lost is None)
    for line, status in described.failing:
        texts[line] = texts.get(line, "Failed to run topology matrix\n")
        texts[f"{line}.status"] = str(status)
    return {line.replace(" ", "_"): text for line, text in texts.items()}


def _links(card: Card) -> str:
    lines = [f"GPU {card.number}: {card.name} (UUID: {card.uuid})\n"]
    lines += [
        f"\t Link {number}: {f'{link.mbps / 1000:.3f} GB/s' if link.active else '<inactive>'}\n"
        for number, link in enumerate(card.links or ())
    ]
    return "".join(lines)


def files(described: Described, *, nvml: bool = False) -> dict[str, str | Path]:
    """Files that make a host of the lab such a machine; with `nvml` its Python has a library of that name, too."""
    made: dict[str, str | Path] = {f"{_ANSWERS}/{name}": text for name, text in answers(described).items()}
    made["/usr/bin/nvidia-smi"] = STAND_IN.read_text(encoding="utf-8")
    if nvml:
        here = Path(__file__).parent
        for path in (*here.glob("fake_pynvml*.py"), here / "smi_machines.py"):
            made[f"{_LIBRARY}/tests/support/{path.name}"] = path.read_text(encoding="utf-8")
        made["/usr/lib/python3/dist-packages/pynvml.py"] = pynvml(described, _LIBRARY)
    return made


def pynvml(described: Described, library: str) -> str:
    """A module that stands in for nvidia-ml-py; `library` is where this project's tests can be imported from."""
    return _PYNVML.format(library=library, machine=described.machine)


def install(described: Described, programs: Path, folder: Path) -> None:
    """Puts the stand-in into `programs` and its answers into `folder`, which FAKE_NVIDIA_SMI must name."""
    programs.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(STAND_IN, programs / "nvidia-smi")
    for name, text in answers(described).items():
        (folder / name).write_text(text, encoding="utf-8")


def imex_control(addresses: list[str], ready: tuple[bool, ...]) -> str:
    """A program that stands in for nvidia-imex-ctl: a domain of these nodes as version 580 shows it."""
    rows = "".join(
        f"Node #{number:<3} - {address:<15} - {'READY' if up else 'UNAVAILABLE':<20} - Version: 580.95\n"
        for number, (address, up) in enumerate(zip(addresses, ready, strict=True))
    )
    heading = " Nodes From\\To  " + "  ".join(str(number) for number in range(len(addresses)))
    matrix = "".join(
        f"       {row}        "
        + "  ".join("C" if ready[row] and ready[column] else "D" for column in range(len(addresses)))
        + "\n"
        for row in range(len(addresses))
    )
    state = "UP" if all(ready) else "DEGRADED"
    text = (
        f"Connectivity Table Legend:\nC - Ready and operational\n\n{rows}\n{heading}\n{matrix}Domain State: {state}\n"
    )
    return f'#!/bin/sh\n[ "$1" = -q ] && {{ echo READY; exit 0; }}\n[ "$2" = -j ] && exit 1\ncat <<\'END\'\n{text}END\n'


_PYNVML = """\
# Stands in for nvidia-ml-py on a host without cards.
import sys

sys.path.insert(0, "{library}")
from tests.support.fake_pynvml import FakePynvml
from tests.support.fake_pynvml_machine import Card, Fabric, Instance, Link, Machine, Process

sys.modules[__name__] = FakePynvml({machine!r})
"""
