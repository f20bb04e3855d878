# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N802, N803, N815 - the names are the library's
"""nvidia-ml-py as a program sees it, over a machine that does not exist: the library's names, structures and errors.

Only what discovery calls is here; `tests/unit/discovery/test_nvml_dump.py` holds the names, arguments and structures
against the real library where it is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn, TypeVar

from tests.support.fake_pynvml_machine import Card, Fabric, Instance, Link, Machine, Process
from tests.support.fake_pynvml_structures import Fabric1, Fabric2, Fabric3, Fabric4, SramStatus

_MIB = 1024 * 1024
_NOWHERE = 0xFFFFFFFF
NOT_SUPPORTED, NOT_FOUND, FUNCTION_NOT_FOUND, LOST = 3, 6, 13, 15
_T = TypeVar("_T")


class NVMLError(Exception):
    """An error of the library, with NVML's number."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


class _Handle:
    """An opaque pointer of the library."""

    def __init__(self, card: Card, instance: Instance | None = None) -> None:
        self.card = card
        self.instance = instance


class FakePynvml:
    """The module `pynvml` on a machine.

    `without` are names that this release of the library does not have, `unknown` functions that the driver does not
    have, `failing` the numbers of errors by function.
    """

    nvmlMemory_v2 = 0x02000028
    c_nvmlGpuFabricInfo_t = Fabric1
    c_nvmlGpuFabricInfo_v2_t = Fabric2
    c_nvmlGpuFabricInfoV_t = Fabric2
    c_nvmlGpuFabricInfo_v3_t = Fabric3
    c_nvmlGpuFabricInfo_v4_t = Fabric4
    c_nvmlEccSramErrorStatus_v1_t = SramStatus

    def __init__(
        self,
        machine: Machine,
        *,
        without: Sequence[str] = (),
        unknown: Sequence[str] = (),
        failing: dict[str, int] | None = None,
    ) -> None:
        self.machine = machine
        self.without = frozenset(without)
        self.errors = {**dict.fromkeys(unknown, FUNCTION_NOT_FOUND), **(failing or {})}
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith(("nvml", "c_nvml")):
            return object.__getattribute__(self, name)
        if name in self.without:
            raise AttributeError(name)
        found = object.__getattribute__(self, name)
        return self._guarded(name, found) if name.startswith("nvml") and callable(found) else found

    def _guarded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            if name in self.errors:
                raise NVMLError(self.errors[name])
            handle = arguments[0] if arguments and isinstance(arguments[0], _Handle) else None
            if handle is not None and handle.card.lost_later and name not in _IDENTITY:
                raise NVMLError(LOST)
            return function(*arguments)

        return call

    # --- system ---

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetCount(self) -> int:
        return len(self.machine.cards)

    def nvmlSystemGetDriverVersion(self) -> str:
        return self.machine.driver

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return self.machine.cuda

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return self.machine.cuda

    def nvmlSystemGetProcessName(self, pid: int) -> str:
        for card in self.machine.cards:
            for process in card.processes or ():
                if process.pid == pid and process.name is not None:
                    return process.name
        raise NVMLError(NOT_FOUND)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> _Handle:
        card = self.machine.cards[index]
        return _Handle(card) if card.lost is None else _raise(card.lost)

    # --- a card's identity and state ---

    def nvmlDeviceGetUUID(self, handle: _Handle) -> str:
        return handle.card.uuid if handle.instance is None else handle.instance.uuid(handle.card.number)

    def nvmlDeviceGetName(self, handle: _Handle) -> str:
        name = handle.card.name
        return name if handle.instance is None else f"{name} MIG {handle.instance.profile}"

    def nvmlDeviceGetSerial(self, handle: _Handle) -> str:
        return _told(handle.card.serial)

    def nvmlDeviceGetPciInfo(self, handle: _Handle) -> SimpleNamespace:
        return _pci(handle.card)

    def nvmlDeviceGetMemoryInfo(self, handle: _Handle, version: int | None = None) -> SimpleNamespace:
        of = handle.instance or handle.card
        total, used = _told(of.total_mib) * _MIB, _told(of.used_mib) * _MIB
        reserved = 0 if handle.instance else handle.card.reserved_mib * _MIB
        if version is None:
            return SimpleNamespace(total=total, used=used + reserved, free=total - used - reserved)
        return SimpleNamespace(version=version, total=total, used=used, reserved=reserved, free=total - used - reserved)

    def nvmlDeviceGetUtilizationRates(self, handle: _Handle) -> SimpleNamespace:
        return SimpleNamespace(gpu=_told(handle.card.utilization), memory=0)

    def nvmlDeviceGetTemperatureV(self, handle: _Handle, sensor: int, version: int = 0x100000C) -> int:
        assert (sensor, version) == (0, 0x100000C)
        return _told(handle.card.temperature)

    def nvmlDeviceGetTemperature(self, handle: _Handle, sensor: int) -> int:
        assert sensor == 0
        return _told(handle.card.temperature)

    def nvmlDeviceGetPowerUsage(self, handle: _Handle) -> int:
        return _told(handle.card.draw_mw[1])

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: _Handle) -> int:
        return _told(handle.card.limit_mw)

    def nvmlDeviceGetPersistenceMode(self, handle: _Handle) -> int:
        return int(handle.card.persistence)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: _Handle) -> int:
        return _told(handle.card.reasons)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: _Handle) -> int:
        return _told(handle.card.reasons)

    def nvmlDeviceGetCudaComputeCapability(self, handle: _Handle) -> tuple[int, int]:
        return handle.card.capability

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: _Handle) -> int:
        return _told(handle.card.widths)[0]

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: _Handle) -> int:
        return _told(handle.card.widths)[1]

    # --- wear ---

    def nvmlDeviceGetEccMode(self, handle: _Handle) -> list[int]:
        return [int(_told(handle.card.ecc))] * 2

    def nvmlDeviceGetTotalEccErrors(self, handle: _Handle, errorType: int, counterType: int) -> int:
        counts = _told(handle.card.aggregate if counterType else handle.card.volatile)
        sram, parity, secded, dram, dram_uncorrected = counts
        return parity + secded + dram_uncorrected if errorType else sram + dram

    def nvmlDeviceGetMemoryErrorCounter(
        self,
        handle: _Handle,
        errorType: int,
        counterType: int,
        locationType: int,
    ) -> int:
        assert (errorType, counterType, locationType) == (1, 0, 7), "all that an instance counts"
        assert handle.instance is not None
        return _told(handle.instance.errors)

    def nvmlDeviceGetSramEccErrorStatus(self, device: _Handle, status: Any) -> int:
        status._obj.bThresholdExceeded = int(_told(device.card.threshold))
        return 0

    def nvmlDeviceGetRemappedRows(self, device: _Handle) -> tuple[int, int, int, int]:
        corrected, uncorrected, pending, failed = _told(device.card.rows)
        return corrected, uncorrected, int(pending), int(failed)

    def nvmlDeviceGetRetiredPages(self, device: _Handle, sourceFilter: int) -> list[int]:
        return list(range(_told(device.card.pages)[sourceFilter]))

    def nvmlDeviceGetRetiredPagesPendingStatus(self, device: _Handle) -> int:
        return int(_told(device.card.pages)[2])

    def nvmlDeviceGetFieldValues(self, handle: _Handle, fieldIds: Sequence[Any]) -> list[SimpleNamespace]:
        return [_field(handle.card, *(one if isinstance(one, tuple) else (one, 0))) for one in fieldIds]

    # --- MIG and processes ---

    def nvmlDeviceGetMigMode(self, device: _Handle) -> list[int]:
        return [int(one) for one in _told(device.card.mig)]

    def nvmlDeviceGetMaxMigDeviceCount(self, device: _Handle) -> int:
        assert device.card.mig is not None
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: _Handle, index: int) -> _Handle:
        for instance in device.card.instances:
            if instance.index == index:
                return _Handle(device.card, instance)
        raise NVMLError(NOT_FOUND)

    def nvmlDeviceGetGpuInstanceId(self, device: _Handle) -> int:
        assert device.instance is not None
        return device.instance.place[0]

    def nvmlDeviceGetComputeInstanceId(self, device: _Handle) -> int:
        assert device.instance is not None
        return device.instance.place[1]

    def nvmlDeviceGetAttributes_v2(self, device: _Handle) -> SimpleNamespace:
        assert device.instance is not None
        return SimpleNamespace(multiprocessorCount=device.instance.multiprocessors)

    nvmlDeviceGetAttributes = nvmlDeviceGetAttributes_v2

    def nvmlDeviceGetComputeRunningProcesses(self, handle: _Handle) -> list[SimpleNamespace]:
        return _processes(handle, "C")

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: _Handle) -> list[SimpleNamespace]:
        return _processes(handle, "G")

    def nvmlDeviceGetMPSComputeRunningProcesses(self, handle: _Handle) -> list[SimpleNamespace]:
        return _processes(handle, "M")

    nvmlDeviceGetComputeRunningProcesses_v2 = nvmlDeviceGetComputeRunningProcesses

    # --- links, fabric, places ---

    def nvmlDeviceGetNvLinkState(self, device: _Handle, link: int) -> int:
        return int(_link(device.card, link).active)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: _Handle, link: int) -> int:
        found = _link(handle.card, link)
        return 2 if found.switch else (255 if found.card is None else 0)

    def nvmlDeviceGetNvLinkRemotePciInfo(self, device: _Handle, link: int) -> SimpleNamespace:
        return _pci(Card(_told(_link(device.card, link).card)))

    def nvmlDeviceGetGpuFabricInfo(self, device: _Handle, gpuFabricInfo: Any) -> int:
        return _fill(gpuFabricInfo._obj, _told(device.card.fabric))

    def nvmlDeviceGetGpuFabricInfoV(self, device: _Handle, gpuFabricInfo: Any) -> int:
        fabric = _told(device.card.fabric)
        if isinstance(gpuFabricInfo._obj, Fabric3) and fabric.summary is None:
            raise NVMLError(25)
        return _fill(gpuFabricInfo._obj, fabric)

    def nvmlDeviceGetGpuFabricInfo_v4(self, device: _Handle, gpuFabricInfo: Any) -> int:
        fabric = _told(device.card.fabric)
        return _raise(FUNCTION_NOT_FOUND) if fabric.summary is None else _fill(gpuFabricInfo._obj, fabric)

    def nvmlDeviceGetCpuAffinity(self, handle: _Handle, cpuSetSize: int) -> list[int]:
        return _mask(handle.card.cpus, cpuSetSize)

    def nvmlDeviceGetMemoryAffinity(self, handle: _Handle, nodeSetSize: int, scope: int) -> list[int]:
        assert scope == 0
        return _mask(handle.card.nodes, nodeSetSize)

    def nvmlDeviceGetNumaNodeId(self, handle: _Handle) -> int:
        return _told(handle.card.own_node)


_IDENTITY = {"nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetPciInfo"}


def _raise(number: int) -> NoReturn:
    raise NVMLError(number)


def _told(value: _T | None) -> _T:
    if value is None:
        raise NVMLError(NOT_SUPPORTED)
    return value


def _pci(card: Card) -> SimpleNamespace:
    return SimpleNamespace(busId=card.bus_id.encode())


def _processes(handle: _Handle, kind: str) -> list[SimpleNamespace]:
    listed: tuple[Process, ...] = _told(handle.card.processes)
    if handle.instance is not None:
        listed = tuple(process for process in listed if process.place == handle.instance.place)
    return [
        SimpleNamespace(
            pid=process.pid,
            usedGpuMemory=None if process.used_mib is None else process.used_mib * _MIB,
            gpuInstanceId=process.place[0] if process.place else _NOWHERE,
            computeInstanceId=process.place[1] if process.place else _NOWHERE,
        )
        for process in listed
        if kind in process.kinds
    ]


def _field(card: Card, number: int, scope: int) -> SimpleNamespace:
    """Values come as a union, of which the type says what holds."""
    flags = card.flags or (None, None)
    values = {
        91: None if card.links is None else len(card.links),
        164: card.links[scope].mbps if card.links and card.links[scope].active else None,
        185: card.draw_mw[0],
        186: card.draw_mw[1],
        226: flags[0],
        227: flags[1],
        230: card.recovery,
    }
    value = values.get(number)
    if value is None:
        return SimpleNamespace(fieldId=number, nvmlReturn=NOT_SUPPORTED, valueType=0, value=SimpleNamespace(dVal=0.0))
    union = SimpleNamespace(dVal=1e-300, uiVal=value, ullVal=-1)
    return SimpleNamespace(fieldId=number, nvmlReturn=0, valueType=1, value=union)


def _link(card: Card, number: int) -> Link:
    links: tuple[Link, ...] = _told(card.links)
    return links[number] if number < len(links) else _raise(2)


def _fill(structure: Any, fabric: Fabric) -> int:
    structure.clusterUuid[:] = bytes.fromhex(fabric.cluster.replace("-", ""))
    structure.status, structure.state = fabric.status, fabric.state
    if isinstance(structure, Fabric4):
        structure.numCliques = 2
        structure.cliques[0].type, structure.cliques[0].id = 1, fabric.clique + 1
        structure.cliques[1].type, structure.cliques[1].id = 0, fabric.clique
    else:
        structure.cliqueId = fabric.clique
    if not isinstance(structure, Fabric1):
        structure.healthMask = fabric.mask
    if isinstance(structure, Fabric3 | Fabric4):
        structure.healthSummary = fabric.summary or 0
    return 0


def _mask(numbers: Sequence[int], words: int) -> list[int]:
    return [sum(1 << number % 64 for number in set(numbers) if number // 64 == word) for word in range(words)]
