# SPDX-License-Identifier: BSD-2-Clause
"""What `nvidia-smi -q -x` and `nvidia-smi -q` say about cards: one reading for both, as printed.

Private to llmgw and pure. The drivers of fifteen years name things differently; the names are data here, each with the
places where drivers put it, newest first. What a driver does not print is None and costs nothing else (D2). Numbers are
without their units; a word where a number should be is None.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Iterator

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.readings.smi_tree import Node

_INTEGER = re.compile(r"-?[0-9]{1,15}(?![0-9])")
_DECIMAL = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]{1,9})?(?![0-9])")
_ABSENT = frozenset({"", "N/A", "[N/A]"})
# Drivers from 610 on print what they are about to drop with a note behind it.
_NOTE = re.compile(r"\s+\[Deprecated.*", re.DOTALL)

_DRIVER = ("kmdversion", "driverversion")
_CUDA = ("cudaumdversion", "cudaversion")
_ATTACHED = ("attachedgpus",)
_UUID = ("uuid", "gpuuuid")
_SERIAL = ("serial", "serialnumber")
_MEMORY = ("fbmemoryusage", "sharedfbmemoryusage", "memoryusage")
_MIG_CURRENT = ("migmode/currentmig", "migmode/current")
_MIG_PENDING = ("migmode/pendingmig", "migmode/pending")
_ECC_MODE = ("eccmode/currentecc", "eccmode/current")
_UTILIZATION = ("utilization/gpuutil", "utilization/gpu")
_TEMPERATURE = ("temperature/gputemp", "temperature/gpucurrenttemp", "temperature/gpu")
_DRAW = (
    "gpupowerreadings/powerdraw",
    "gpupowerreadings/averagepowerdraw",
    "gpupowerreadings/instantpowerdraw",
    "gpupowerreadings/instantaneouspowerdraw",
    "powerreadings/powerdraw",
)
_LIMIT = (
    "gpupowerreadings/currentpowerlimit",
    "gpupowerreadings/enforcedpowerlimit",
    "powerreadings/enforcedpowerlimit",
    "powerreadings/powerlimit",
)
_WIDTH = (
    "pci/pcigpulinkinfo/linkwidths/currentlinkwidth",
    "pci/gpulinkinfo/linkwidth/current",
    "pci/gpulinkinfo/linkwidths/current",
)
_WIDTH_MAX = (
    "pci/pcigpulinkinfo/linkwidths/maxlinkwidth",
    "pci/gpulinkinfo/linkwidth/max",
    "pci/gpulinkinfo/linkwidths/max",
)
_REASONS = ("clockseventreasons", "clocksthrottlereasons")
_RESET = ("gpuresetstatus/resetrequired",)
_DRAIN_AND_RESET = ("gpuresetstatus/drainandresetrecommended",)
_ROWS_CORRECTED = ("remappedrows/remappedrowcorr", "remappedrows/correctableerror")
_ROWS_UNCORRECTED = ("remappedrows/remappedrowunc", "remappedrows/uncorrectableerror")
_ROWS_PENDING = ("remappedrows/remappedrowpending", "remappedrows/pending")
_ROWS_FAILED = ("remappedrows/remappedrowfailure", "remappedrows/remappingfailureoccurred")
_PAGES_SINGLE = ("retiredpages/multiplesinglebitretirement/retiredcount", "retiredpages/singlebitecc")
_PAGES_DOUBLE = ("retiredpages/doublebitretirement/retiredcount", "retiredpages/doublebitecc")
_PAGES_PENDING = (
    "retiredpages/pendingretirement",
    "retiredpages/pendingblacklist",
    "retiredpages/pendingpageblacklist",
    "retiredpages/pending",
)
_PROCESSES = ("processes", "computeprocesses")
_ERRORS_OF_INSTANCE = ("eccerrorcount", "eccerrors")
_GPU_INSTANCE = "gpuinstanceid"
_COMPUTE_INSTANCE = "computeinstanceid"


@dataclass(frozen=True)
class SmiProcess:
    """A process on a card; `gi` and `ci` name the MIG instance that it runs in."""

    pid: int
    type: str | None
    name: str | None
    used_mib: int | None
    gi: int | None
    ci: int | None


@dataclass(frozen=True)
class SmiMigDevice:
    """A MIG device; `sm` is its number of multiprocessors."""

    index: int
    gi: int | None
    ci: int | None
    sm: int | None
    memory_total_mib: int | None
    memory_used_mib: int | None
    uuid: str | None
    ecc_errors: dict[str, str] | None


@dataclass(frozen=True)
class SmiGpu:
    """One card. Texts are as printed; `None` as a word is a text."""

    index: int
    pci_bus_id: str | None
    uuid: str | None
    name: str | None
    minor: str | None
    serial: str | None
    memory_total_mib: int | None
    memory_used_mib: int | None
    memory_reserved_mib: int | None
    mig_mode_element_present: bool
    mig_current: str | None
    mig_pending: str | None
    ecc_mode: str | None
    gpu_util: str | None
    temperature_c: int | None
    power_draw_w: float | None
    power_limit_w: float | None
    pcie_width: int | None
    pcie_width_max: int | None
    persistence: str | None
    addressing_mode: str | None
    recovery_action: str | None
    reset_required: str | None
    drain_and_reset_recommended: str | None
    clock_reasons: dict[str, str] | None
    fabric: dict[str, str] | None
    ecc_errors: dict[str, str] | None
    remapped_corrected: int | None
    remapped_uncorrected: int | None
    remapped_pending: str | None
    remapped_failure: str | None
    retired_single_bit: int | None
    retired_double_bit: int | None
    retired_pending: str | None
    mig_devices: tuple[SmiMigDevice, ...]
    processes: tuple[SmiProcess, ...]
    processes_told: bool  # False: the driver does not say whether there are any


@dataclass(frozen=True)
class SmiReading:
    """One answer. `attached_gpus` is the driver's count, which can be more than the cards that it describes."""

    dtd: str | None
    driver: str | None
    cuda: str | None
    attached_gpus: int | None
    gpus: tuple[SmiGpu, ...]


def reading(top: Node, cards: list[Node], dtd: str | None = None) -> SmiReading:
    """The reading of a text: `top` holds what is said of the driver; a card's name is its bus id."""
    return SmiReading(
        dtd=dtd,
        driver=_version(top, _DRIVER),
        cuda=_version(top, _CUDA),
        attached_gpus=_integer(top, *_ATTACHED),
        gpus=tuple(_gpu(index, card) for index, card in enumerate(cards)),
    )


def _gpu(index: int, card: Node) -> SmiGpu:
    memory = card.find(*_MEMORY)
    processes = card.find(*_PROCESSES)
    return SmiGpu(
        index=index,
        pci_bus_id=card.name or _text(card, "pci/pcibusid"),
        uuid=_text(card, *_UUID),
        name=_text(card, "productname"),
        minor=_text(card, "minornumber"),
        serial=_text(card, *_SERIAL),
        memory_total_mib=_integer(memory, "total"),
        memory_used_mib=_integer(memory, "used"),
        memory_reserved_mib=_integer(memory, "reserved"),
        mig_mode_element_present=card.find("migmode") is not None,
        mig_current=_text(card, *_MIG_CURRENT),
        mig_pending=_text(card, *_MIG_PENDING),
        ecc_mode=_text(card, *_ECC_MODE),
        gpu_util=_text(card, *_UTILIZATION),
        temperature_c=_integer(card, *_TEMPERATURE),
        power_draw_w=_decimal(card, *_DRAW),
        power_limit_w=_decimal(card, *_LIMIT),
        pcie_width=_integer(card, *_WIDTH),
        pcie_width_max=_integer(card, *_WIDTH_MAX),
        persistence=_text(card, "persistencemode"),
        addressing_mode=_text(card, "addressingmode"),
        recovery_action=_text(card, "gpurecoveryaction"),
        reset_required=_text(card, *_RESET),
        drain_and_reset_recommended=_text(card, *_DRAIN_AND_RESET),
        clock_reasons=_states(card.find(*_REASONS)),
        fabric=_leaves(card.find("fabric")),
        ecc_errors=_leaves(card.find("eccerrors")),
        remapped_corrected=_integer(card, *_ROWS_CORRECTED),
        remapped_uncorrected=_integer(card, *_ROWS_UNCORRECTED),
        remapped_pending=_text(card, *_ROWS_PENDING),
        remapped_failure=_text(card, *_ROWS_FAILED),
        retired_single_bit=_integer(card, *_PAGES_SINGLE),
        retired_double_bit=_integer(card, *_PAGES_DOUBLE),
        retired_pending=_text(card, *_PAGES_PENDING),
        mig_devices=tuple(_mig_devices(card)),
        processes=tuple(_processes(processes)) if processes is not None else (),
        processes_told=processes is not None and (bool(processes.children) or processes.text.lower() in {"", "none"}),
    )


def _mig_devices(card: Node) -> Iterator[SmiMigDevice]:
    listed = card.find("migdevices") or card
    for device in listed.named("migdevice"):
        index = _integer(device, "index")
        if index is None:
            continue
        memory = device.find(*_MEMORY)
        yield SmiMigDevice(
            index=index,
            gi=_integer(device, _GPU_INSTANCE),
            ci=_integer(device, _COMPUTE_INSTANCE),
            sm=_integer(device, "deviceattributes/shared/multiprocessorcount"),
            memory_total_mib=_integer(memory, "total"),
            memory_used_mib=_integer(memory, "used"),
            uuid=_text(device, "uuid", "miguuid", "migdeviceuuid"),
            ecc_errors=_leaves(device.find(*_ERRORS_OF_INSTANCE)),
        )


def _processes(section: Node) -> Iterator[SmiProcess]:
    """The XML has one element a process. The text has its lines in a row, those of the instance before the pid."""
    before: dict[str, int | None] = {}
    for node in section.children:
        if node.key in {_GPU_INSTANCE, _COMPUTE_INSTANCE}:
            before[node.key] = _number(node.text)
            continue
        pid = _integer(node, "pid") if node.key == "processinfo" else None
        if node.key == "processid":
            pid = _number(node.text)
        if pid is not None:
            yield SmiProcess(
                pid=pid,
                type=_text(node, "type"),
                name=_text(node, "processname", "name"),
                used_mib=_integer(node, "usedmemory", "usedgpumemory"),
                gi=_integer(node, _GPU_INSTANCE) if node.find(_GPU_INSTANCE) else before.get(_GPU_INSTANCE),
                ci=_integer(node, _COMPUTE_INSTANCE) if node.find(_COMPUTE_INSTANCE) else before.get(_COMPUTE_INSTANCE),
            )
        before = {}


def _states(section: Node | None) -> dict[str, str] | None:
    """State of every clock reason by its printed name; the text form nests the kinds of a slowdown under it."""
    if section is None or not section.children:
        return None
    found: dict[str, str] = {}
    for child in section.children:
        for node in (child, *child.children):
            found.setdefault(node.name, node.text)
    return found


def _leaves(section: Node | None) -> dict[str, str] | None:
    return section.leaves() if section is not None and section.children else None


def _text(node: Node | None, *paths: str) -> str | None:
    """The first of these that says something."""
    for path in paths:
        found = node.find(path) if node is not None else None
        if found is not None and found.text not in _ABSENT:
            return found.text
    return None


def _version(top: Node, names: tuple[str, ...]) -> str | None:
    said = _text(top, *names)
    return None if said is None else _NOTE.sub("", said)


def _integer(node: Node | None, *paths: str) -> int | None:
    return _number(_text(node, *paths))


def _number(text: str | None) -> int | None:
    found = _INTEGER.match(text or "")
    return int(found.group(0)) if found else None


def _decimal(node: Node | None, *paths: str) -> float | None:
    for path in paths:
        found = _DECIMAL.match(_text(node, path) or "")
        if found:
            return float(found.group(0))
    return None
