# SPDX-License-Identifier: Apache-2.0
"""Machines that do not exist, as `nvidia-smi -q -x` and as `nvidia-smi -q` would print them.

A card is a list of lines that have a name in either form; each form is drawn from the same list.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from xml.sax.saxutils import escape

N_A = "N/A"


class Line(NamedTuple):
    """Name of the element, name in the text form, and the value or what is inside."""

    element: str
    label: str
    value: str | list[Line]


@dataclass(frozen=True)
class Process:
    pid: int
    name: str = "python"
    used: str = "100 MiB"
    kind: str = "C"
    gi: str = N_A
    ci: str = N_A


@dataclass(frozen=True)
class Instance:
    index: int
    gi: int
    ci: int = 0
    total: str = "9984 MiB"
    used: str = "9 MiB"
    multiprocessors: str = "16"
    errors: str = "0"


@dataclass(frozen=True)
class Card:
    """Values as printed. `old` names sections as drivers before 535 did and counts memory errors by place."""

    number: int = 0
    old: bool = False
    name: str = "NVIDIA H100 80GB HBM3"
    serial: str = "1650000000007"
    uuid: str | None = None
    persistence: str = "Enabled"
    addressing: str = "None"
    mig: tuple[str, str] = ("Disabled", "Disabled")
    instances: tuple[Instance, ...] = ()
    recovery: str = "None"
    reset_required: str = "No"
    drain_and_reset: str = N_A
    widths: tuple[str, str] = ("16x", "8x")
    reasons: dict[str, str] = field(default_factory=lambda: {"gpu_idle": "Active", "hw_thermal_slowdown": "Active"})
    total: str = "81559 MiB"
    reserved: str = "479 MiB"
    used: str = "11125 MiB"
    utilization: str = "65 %"
    ecc: str = "Enabled"
    volatile: tuple[str, ...] = ("1", "2", "3", "4", "5")
    aggregate: tuple[str, ...] = ("10", "20", "30", "40", "50")
    threshold: str = "No"
    rows: tuple[str, str, str, str] = ("1", "2", "No", "Yes")
    pages: tuple[str, str, str] = (N_A, N_A, N_A)
    temperature: str = "53 C"
    draw: tuple[str, str] = ("432.21 W", "444.72 W")
    limit: str = "700.00 W"
    fabric: tuple[str, ...] = ("Completed", "Success", "7", "0a0b0c0d-0000-4000-8000-000000000001")
    health: tuple[str, ...] = ("Healthy", "Full", "False", "True", "False", "None")
    processes: tuple[Process, ...] | None = ()

    @property
    def bus_id(self) -> str:
        return f"00000000:{0x10 + self.number:02X}:00.0"


REASONS = {
    "gpu_idle": "Idle",
    "applications_clocks_setting": "Applications Clocks Setting",
    "sw_power_cap": "SW Power Cap",
    "hw_slowdown": "HW Slowdown",
    "hw_thermal_slowdown": "HW Thermal Slowdown",
    "hw_power_brake_slowdown": "HW Power Brake Slowdown",
    "sync_boost": "Sync Boost",
    "sw_thermal_slowdown": "SW Thermal Slowdown",
    "display_clocks_setting": "Display Clock Setting",
}
_NESTED = {"hw_thermal_slowdown", "hw_power_brake_slowdown"}
_COUNTERS = (
    ("sram_correctable", "SRAM Correctable"),
    ("sram_uncorrectable_parity", "SRAM Uncorrectable Parity"),
    ("sram_uncorrectable_secded", "SRAM Uncorrectable SEC-DED"),
    ("dram_correctable", "DRAM Correctable"),
    ("dram_uncorrectable", "DRAM Uncorrectable"),
)
_HEALTH = (
    ("summary", "Summary"),
    ("bandwidth", "Bandwidth"),
    ("route_recovery_in_progress", "Route Recovery in progress"),
    ("route_unhealthy", "Route Unhealthy"),
    ("access_timeout_recovery", "Access Timeout Recovery"),
    ("incorrect_configuration", "Incorrect Configuration"),
)


def xml(*cards: Card, attached: int | None = None, driver: str = "570.86.15", cuda: str = "12.8") -> str:
    """A whole answer of `nvidia-smi -q -x`."""
    body = "".join(f'\t<gpu id="{card.bus_id}">\n{_elements(card)}\t</gpu>\n\n' for card in cards)
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
        f"\t<driver_version>{driver}</driver_version>\n\t<cuda_version>{cuda}</cuda_version>\n"
        f"\t<attached_gpus>{len(cards) if attached is None else attached}</attached_gpus>\n{body}</nvidia_smi_log>\n"
    )


def text(
    *cards: Card, attached: int | None = None, driver: str = "570.86.15", cuda: str = "12.8", column: int = 42
) -> str:
    """A whole answer of `nvidia-smi -q`, with its colons at a column."""
    head = [("Timestamp", "Mon Jan  5 10:00:00 2026"), ("Driver Version", driver), ("CUDA Version", cuda)]
    count = str(len(cards) if attached is None else attached)
    lines = ["", "==============NVSMI LOG==============", "", *(_field(0, name, value, column) for name, value in head)]
    lines += ["", _field(0, "Attached GPUs", count, column)]
    for card in cards:
        lines += [f"GPU {card.bus_id}", *_text_lines(card, column), ""]
    return "\n".join(lines) + "\n"


def _elements(card: Card) -> str:
    lines = _sections(card)
    devices = "".join(f"\t\t\t<mig_device>\n{_drawn(_instance(one), 4)}\t\t\t</mig_device>\n" for one in card.instances)
    devices = devices or "\t\t\tNone\n"
    drawn = _drawn(lines, 2) + f"\t\t<mig_devices>\n{devices}\t\t</mig_devices>\n"
    if card.processes is None:
        return f"{drawn}\t\t<processes>N/A</processes>\n"
    processes = "".join(_process_element(process) for process in card.processes)
    return f"{drawn}\t\t<processes>\n{processes}\t\t</processes>\n"


def _process_element(process: Process) -> str:
    lines = [
        Line("gpu_instance_id", "", process.gi),
        Line("compute_instance_id", "", process.ci),
        Line("pid", "", str(process.pid)),
        Line("type", "", process.kind),
        Line("process_name", "", process.name),
        Line("used_memory", "", process.used),
    ]
    return f"\t\t\t<process_info>\n{_drawn(lines, 4)}\t\t\t</process_info>\n"


def _drawn(lines: list[Line], depth: int) -> str:
    indent = "\t" * depth
    drawn = ""
    for line in lines:
        if isinstance(line.value, str):
            drawn += f"{indent}<{line.element}>{escape(line.value)}</{line.element}>\n"
        else:
            drawn += f"{indent}<{line.element}>\n{_drawn(line.value, depth + 1)}{indent}</{line.element}>\n"
    return drawn


def _field(depth: int, name: str, value: str, column: int) -> str:
    return f"{'    ' * depth}{name}".ljust(column) + f": {value}"


def _text_lines(card: Card, column: int) -> list[str]:
    lines = []
    for line in _sections(card):
        lines += _indented([line], 1, column)
        if line.element == "mig_mode":
            for one in card.instances:
                lines += ["    MIG Device", *_indented(_instance(one), 2, column)]
    if card.processes is None:
        return [*lines, _field(1, "Processes", N_A, column)]
    if not card.processes:
        return [
            *lines,
            _field(1, "Processes", "None", column),
            "    Capabilities",
            _field(2, "EGM", "disabled", column),
        ]
    lines.append("    Processes")
    for process in card.processes:
        lines += [_field(2, "GPU instance ID", process.gi, 42), _field(2, "Compute instance ID", process.ci, 42)]
        lines += [_field(2, "Process ID", str(process.pid), 42), _field(3, "Type", process.kind, 42)]
        lines += [_field(3, "Name", process.name, 42), _field(3, "Used GPU Memory", process.used, 42)]
    return lines


def _indented(lines: list[Line], depth: int, column: int) -> list[str]:
    drawn = []
    for line in lines:
        deeper = depth + (line.element.split("_reason_")[-1] in _NESTED)
        if isinstance(line.value, str):
            drawn.append(_field(deeper, line.label, line.value, column))
        elif not line.value[0].label:  # the text form prints the one value that the section holds
            drawn.append(_field(depth, line.label, str(line.value[0].value), column))
        else:
            drawn += [f"{'    ' * depth}{line.label}", *_indented(line.value, depth + 1, column)]
    return drawn


def _instance(one: Instance) -> list[Line]:
    count = [Line("multiprocessor_count", "Multiprocessor count", one.multiprocessors)]
    memory = [Line("total", "Total", one.total), Line("used", "Used", one.used)]
    errors = [Line("volatile_count", "Volatile", [Line("sram_uncorrectable", "SRAM Uncorrectable", one.errors)])]
    return [
        Line("index", "Index", str(one.index)),
        Line("gpu_instance_id", "GPU Instance ID", str(one.gi)),
        Line("compute_instance_id", "Compute Instance ID", str(one.ci)),
        Line("device_attributes", "Device Attributes", [Line("shared", "Shared", count)]),
        Line("ecc_error_count", "ECC Errors", errors),
        Line("fb_memory_usage", "Shared FB Memory Usage", memory),
    ]


def _sections(card: Card) -> list[Line]:
    widths = [
        Line("max_link_width", "Max", card.widths[0]),
        Line("current_link_width", "Current", card.widths[1]),
    ]
    link = [Line("link_widths", "Link Width", widths)]
    mig = [Line("current_mig", "Current", card.mig[0]), Line("pending_mig", "Pending", card.mig[1])]
    flags = [
        Line("reset_required", "Reset Required", card.reset_required),
        Line("drain_and_reset_recommended", "Drain and Reset Recommended", card.drain_and_reset),
    ]
    action = [Line("gpu_recovery_action", "GPU Recovery Action", card.recovery)]
    return [
        Line("product_name", "Product Name", card.name),
        Line("persistence_mode", "Persistence Mode", card.persistence),
        Line("addressing_mode", "Addressing Mode", card.addressing),
        Line("mig_mode", "MIG Mode", mig),
        Line("serial", "Serial Number", card.serial),
        Line("uuid", "GPU UUID", card.uuid or f"GPU-0000aaaa-0000-4000-8000-{card.number:012d}"),
        Line("minor_number", "Minor Number", str(card.number)),
        *([Line("gpu_reset_status", "GPU Reset Status", flags)] if card.old else action),
        Line("pci", "PCI", [Line("pci_gpu_link_info", "GPU Link Info", link)]),
        _reasons(card),
        Line("fb_memory_usage", "FB Memory Usage", _memory(card)),
        Line("bar1_memory_usage", "BAR1 Memory Usage", [Line("total", "Total", "131072 MiB")]),
        Line("utilization", "Utilization", [Line("gpu_util", "Gpu" if card.old else "GPU", card.utilization)]),
        Line("ecc_mode", "ECC Mode", [Line("current_ecc", "Current", card.ecc)]),
        _errors(card),
        _pages(card),
        _rows(card),
        Line("temperature", "Temperature", [Line("gpu_temp", "GPU Current Temp", card.temperature)]),
        *_power(card),
        *_fabric(card),
    ]


def _reasons(card: Card) -> Line:
    word = "throttle" if card.old else "event"
    states = [
        Line(f"clocks_{word}_reason_{element}", label, card.reasons.get(element, "Not Active"))
        for element, label in REASONS.items()
    ]
    return Line(f"clocks_{word}_reasons", f"Clocks {word.title()} Reasons", states)


def _memory(card: Card) -> list[Line]:
    return [
        Line("total", "Total", card.total),
        Line("reserved", "Reserved", card.reserved),
        Line("used", "Used", card.used),
    ]


def _errors(card: Card) -> Line:
    if card.old:
        scopes = [
            Line(scope.lower(), scope, [_by_place("single_bit", counts[0]), _by_place("double_bit", counts[1])])
            for scope, counts in (("Volatile", card.volatile), ("Aggregate", card.aggregate))
        ]
        return Line("ecc_errors", "ECC Errors", scopes)
    volatile, aggregate = (
        [Line(element, label, count) for (element, label), count in zip(_COUNTERS, counts, strict=True)]
        for counts in (card.volatile, card.aggregate)
    )
    aggregate.append(Line("sram_threshold_exceeded", "SRAM Threshold Exceeded", card.threshold))
    sources = [Line("sram_l2", "SRAM L2", "9"), Line("sram_other", "SRAM Other", "9")]
    return Line(
        "ecc_errors",
        "ECC Errors",
        [
            Line("volatile", "Volatile", volatile),
            Line("aggregate", "Aggregate", aggregate),
            Line("aggregate_uncorrectable_sram_sources", "Aggregate Uncorrectable SRAM Sources", sources),
            Line("channel_repair_pending", "Channel Repair Pending", "No"),
        ],
    )


def _by_place(element: str, total: str) -> Line:
    places = [Line("device_memory", "Device Memory", "1"), Line("total", "Total", total)]
    return Line(element, element.replace("_", " ").title(), places)


def _pages(card: Card) -> Line:
    return Line(
        "retired_pages",
        "Retired Pages",
        [
            Line("multiple_single_bit_retirement", "Single Bit ECC", [Line("retired_count", "", card.pages[0])]),
            Line("double_bit_retirement", "Double Bit ECC", [Line("retired_count", "", card.pages[1])]),
            Line("pending_blacklist", "Pending Page Blacklist", card.pages[2]),
        ],
    )


def _rows(card: Card) -> Line:
    names = (
        ("remapped_row_corr", "Correctable Error"),
        ("remapped_row_unc", "Uncorrectable Error"),
        ("remapped_row_pending", "Pending"),
        ("remapped_row_failure", "Remapping Failure Occurred"),
    )
    rows = [Line(element, label, value) for (element, label), value in zip(names, card.rows, strict=True)]
    return Line("remapped_rows", "Remapped Rows", rows)


def _power(card: Card) -> list[Line]:
    if card.old:
        old = [
            Line("power_draw", "Power Draw", card.draw[0]),
            Line("power_limit", "Power Limit", "1.00 W"),
            Line("enforced_power_limit", "Enforced Power Limit", card.limit),
        ]
        return [Line("power_readings", "Power Readings", old)]
    new = [
        Line("average_power_draw", "Average Power Draw", card.draw[0]),
        Line("instant_power_draw", "Instantaneous Power Draw", card.draw[1]),
        Line("current_power_limit", "Current Power Limit", card.limit),
        Line("requested_power_limit", "Requested Power Limit", "1.00 W"),
    ]
    module = [Line("average_power_draw", "Average Power Draw", "2500.00 W")]
    return [
        Line("gpu_power_readings", "GPU Power Readings", new),
        Line("gpu_memory_power_readings", "GPU Memory Power Readings ", [module[0]]),
        Line("module_power_readings", "Module Power Readings", module),
    ]


def _fabric(card: Card) -> list[Line]:
    if card.old:
        return []
    names = (("state", "State"), ("status", "Status"), ("cliqueId", "CliqueId"), ("clusterUuid", "ClusterUUID"))
    lines = [Line(element, label, value) for (element, label), value in zip(names, card.fabric, strict=True)]
    health = [Line(element, label, value) for (element, label), value in zip(_HEALTH, card.health, strict=True)]
    return [Line("fabric", "Fabric", [*lines, Line("health", "Health", health)])]
