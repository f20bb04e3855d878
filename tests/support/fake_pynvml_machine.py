# SPDX-License-Identifier: Apache-2.0
"""Machines with cards that do not exist, as numbers: what NVML would tell of them, and what nvidia-smi would print.

None is what the card or its driver does not have. `fake_pynvml` tells the numbers, `printed` gives the words.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.support import smi_machines

N_A = "N/A"
ZERO = "00000000-0000-0000-0000-000000000000"
COMPUTE, GRAPHICS, MPS = "C", "G", "M"


@dataclass(frozen=True)
class Process:
    pid: int
    kinds: str = COMPUTE  # letters of those that it is, in the order M, C, G
    used_mib: int | None = 100
    name: str | None = "python"
    place: tuple[int, int] | None = None  # GPU and compute instance


@dataclass(frozen=True)
class Instance:
    index: int
    place: tuple[int, int]
    profile: str = "1g.10gb"
    total_mib: int | None = 9984
    used_mib: int | None = 9
    multiprocessors: int = 16
    errors: int | None = 0

    def uuid(self, number: int) -> str:
        return f"MIG-0000bbbb-0000-5000-{number:04d}-{self.index:012d}"


@dataclass(frozen=True)
class Fabric:
    """Numbers of nvml.h; `summary` None is a driver that has no summary (and is asked by an older structure)."""

    state: int = 3
    status: int = 0
    cluster: str = ZERO
    clique: int = 0
    mask: int = 0
    summary: int | None = 0


@dataclass(frozen=True)
class Link:
    """An NVLink: active or not, and where it ends: at a switch, at a card by its number, or nobody knows."""

    active: bool = True
    switch: bool = False
    card: int | None = None
    mbps: int = 26562


@dataclass(frozen=True)
class Card:
    number: int = 0
    name: str = "NVIDIA H100 80GB HBM3"
    serial: str | None = "1650000000007"
    capability: tuple[int, int] = (9, 0)
    total_mib: int | None = 81559
    reserved_mib: int = 479
    used_mib: int = 4
    utilization: int | None = 7
    temperature: int | None = 31
    draw_mw: tuple[int | None, int | None] = (70110, 71000)
    limit_mw: int | None = 700000
    persistence: bool = True
    reasons: int | None = 1
    widths: tuple[int, int] | None = (16, 16)
    ecc: bool | None = True
    volatile: tuple[int, int, int, int, int] | None = (0, 0, 0, 0, 0)
    aggregate: tuple[int, int, int, int, int] | None = (0, 0, 0, 0, 0)
    threshold: bool | None = False
    rows: tuple[int, int, bool, bool] | None = (0, 0, False, False)
    pages: tuple[int, int, bool] | None = None
    recovery: int | None = 0
    flags: tuple[int, int] | None = None  # reset required, drain and reset: drivers before the recovery action
    mig: tuple[bool, bool] | None = (False, False)
    instances: tuple[Instance, ...] = ()
    processes: tuple[Process, ...] | None = ()
    fabric: Fabric | None = None
    links: tuple[Link, ...] | None = None
    cpus: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    own_node: int | None = None
    lost: int | None = None  # NVML's error in place of a handle
    lost_later: bool = False  # falls off the bus after its identity was read

    @property
    def uuid(self) -> str:
        return f"GPU-0000aaaa-0000-4000-8000-{self.number:012d}"

    @property
    def bus_id(self) -> str:
        return f"00000000:{0x10 + self.number:02X}:00.0"

    @property
    def address(self) -> str:
        return self.bus_id[4:].lower()


@dataclass(frozen=True)
class Machine:
    cards: tuple[Card, ...]
    driver: str = "580.95.05"
    cuda: int = 13010


_RECOVERY = ("None", "Reset", "Reboot", "Drain P2P", "Drain and Reset", "Recover IMEX Domain")
_REASONS = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clocks_setting",
)
_STATES = (N_A, "Not Started", "In Progress", "Completed")
_STATUSES = {0: "Success", 23: "Insufficient Resources"}
_SUMMARIES = (N_A, "Healthy", "Unhealthy", "Limited Capacity")
_CONFIGURATIONS = (
    N_A,
    "None",
    "Incorrect SystemGuid",
    "Incorrect Chassis Serial Number",
    "No Partition",
    "Insufficient Nvlink Resources",
    "Incompatible GPU Firmware",
    "Invalid Location",
    "GPU State Invalid",
)


def commands(machine: Machine) -> dict[str, str]:
    """What nvidia-smi prints on the machine, by command line."""
    answering = [card for card in machine.cards if card.lost is None]
    cuda = f"{machine.cuda // 1000}.{machine.cuda % 1000 // 10}"
    said = "".join(
        f"Unable to determine the device handle for GPU{card.number}: {card.bus_id[4:]}: GPU is lost.\n"
        for card in machine.cards
        if card.lost is not None
    )
    document = smi_machines.xml(*(printed(card) for card in answering), driver=machine.driver, cuda=cuda)
    capabilities = "".join(f"{card.uuid}, {card.capability[0]}.{card.capability[1]}\n" for card in answering)
    return {
        "nvidia-smi -q -x": document + said,
        "nvidia-smi -L": "".join(_listed(index, card) for index, card in enumerate(answering)),
        "nvidia-smi --query-gpu=uuid,compute_cap --format=csv,noheader": capabilities,
    }


def bound(machine: Machine) -> dict[str, str | bytes]:
    """The driver's own list of cards, as files."""
    return {
        f"/proc/driver/nvidia/gpus/{card.address}/information": f"Model: \t\t {card.name}\nGPU Excluded:\t No\n"
        for card in machine.cards
    }


def _listed(index: int, card: Card) -> str:
    lines = [f"GPU {index}: {card.name} (UUID: {card.uuid})\n"]
    lines += [
        f"  MIG {one.profile}     Device  {one.index}: (UUID: {one.uuid(card.number)})\n" for one in card.instances
    ]
    return "".join(lines)


def printed(card: Card) -> smi_machines.Card:
    """The card in the words of nvidia-smi."""
    return smi_machines.Card(
        number=card.number,
        name=card.name,
        serial=card.serial or N_A,
        uuid=card.uuid,
        persistence=_word(card.persistence, "Enabled", "Disabled"),
        mig=_mig(card.mig),
        instances=tuple(_printed_instance(one) for one in card.instances),
        recovery=N_A if card.recovery is None else _RECOVERY[card.recovery],
        widths=(N_A, N_A) if card.widths is None else (f"{card.widths[1]}x", f"{card.widths[0]}x"),
        reasons=_reasons(card.reasons),
        total=_unit(card.total_mib, "MiB"),
        reserved=_unit(None if card.total_mib is None else card.reserved_mib, "MiB"),
        used=_unit(None if card.total_mib is None else card.used_mib, "MiB"),
        utilization=_unit(card.utilization, "%"),
        ecc=_word(card.ecc, "Enabled", "Disabled"),
        volatile=_counts(card.volatile),
        aggregate=_counts(card.aggregate),
        threshold=_word(card.threshold, "Yes", "No"),
        rows=(N_A,) * 4
        if card.rows is None
        else (str(card.rows[0]), str(card.rows[1]), _word(card.rows[2], "Yes", "No"), _word(card.rows[3], "Yes", "No")),
        pages=(N_A,) * 3
        if card.pages is None
        else (str(card.pages[0]), str(card.pages[1]), _word(card.pages[2], "Yes", "No")),
        temperature=_unit(card.temperature, "C"),
        draw=(_watts(card.draw_mw[0]), _watts(card.draw_mw[1])),
        limit=_watts(card.limit_mw),
        fabric=_fabric(card.fabric),
        health=_health(card.fabric),
        processes=None if card.processes is None else tuple(_printed_process(one) for one in card.processes),
    )


def _mig(mig: tuple[bool, bool] | None) -> tuple[str, str]:
    current, pending = mig or (None, None)
    return _word(current, "Enabled", "Disabled"), _word(pending, "Enabled", "Disabled")


def _printed_instance(one: Instance) -> smi_machines.Instance:
    return smi_machines.Instance(
        one.index,
        *one.place,
        total=_unit(one.total_mib, "MiB"),
        used=_unit(None if one.total_mib is None else one.used_mib, "MiB"),
        multiprocessors=str(one.multiprocessors),
        errors=N_A if one.errors is None else str(one.errors),
    )


def _printed_process(one: Process) -> smi_machines.Process:
    gi, ci = (N_A, N_A) if one.place is None else (str(one.place[0]), str(one.place[1]))
    return smi_machines.Process(
        one.pid, one.name or "[Not Found]", _unit(one.used_mib, "MiB"), "+".join(one.kinds), gi, ci
    )


def _reasons(mask: int | None) -> dict[str, str]:
    if mask is None:
        return dict.fromkeys(smi_machines.REASONS, N_A)
    return {name: _word(bool(mask >> bit & 1), "Active", "Not Active") for bit, name in enumerate(_REASONS)}


def _counts(counts: tuple[int, ...] | None) -> tuple[str, ...]:
    return (N_A,) * 5 if counts is None else tuple(str(count) for count in counts)


def _fabric(fabric: Fabric | None) -> tuple[str, ...]:
    """Nothing is printed before the handshake is complete but its state."""
    state = fabric.state if fabric else 0
    if fabric is None or state != len(_STATES) - 1:
        return (_STATES[state], N_A, N_A, N_A)
    return (_STATES[state], _STATUSES[fabric.status], str(fabric.clique), fabric.cluster)


def _health(fabric: Fabric | None) -> tuple[str, ...]:
    if fabric is None or fabric.state == 0 or fabric.summary == 0:
        return (N_A,) * 6
    fields = [fabric.mask >> shift & 3 for shift in (0, 2, 4, 6)]
    flags = [(N_A, "True", "False")[field] for field in fields]
    bandwidth = (N_A, "Degraded", "Full")[fields[0]]
    summary = N_A if fabric.summary is None else _SUMMARIES[fabric.summary]
    return (summary, bandwidth, *flags[1:], _CONFIGURATIONS[fabric.mask >> 8 & 15])


def _word(value: bool | None, yes: str, no: str) -> str:
    return N_A if value is None else (yes if value else no)


def _unit(value: int | None, unit: str) -> str:
    return N_A if value is None else f"{value} {unit}"


def _watts(milliwatts: int | None) -> str:
    return N_A if milliwatts is None else f"{milliwatts / 1000:.2f} W"
