# SPDX-License-Identifier: BSD-2-Clause
"""Prints what NVML says about every card, as one line of JSON: a program of its own, which discovery runs and may kill.

Private to llmgw. NVML can hang and can take its process down, so this text is given to a Python of its own. It needs
nvidia-ml-py (the module `pynvml`), the standard library, and nothing of this collection. What it prints are NVML's own
numbers and texts; what they mean is for `nvml`. A reading that the driver does not have is null, one that ended in an
error worth knowing is null and in `errors` by the name of the call. A card that is lost is not asked further.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

Document = Dict[str, Any]

_NOT_SUPPORTED, _NOT_FOUND, _FUNCTION_NOT_FOUND, _LOST = 3, 6, 13, 15
# What these mean is that the driver or the card does not have the reading. A version that the driver does not know is
# answered by 25 (or, by older ones, with an invalid argument, 2), a deprecated reading by 26.
_ABSENT = frozenset({2, _NOT_SUPPORTED, _NOT_FOUND, _FUNCTION_NOT_FOUND, 25, 26})
_SINGLE_BIT, _DOUBLE_BIT = 0, 1
_VOLATILE, _AGGREGATE = 0, 1
_SRAM = 7
_GPU_SENSOR = 0
_NODE_SCOPE = 0
_MOST_LINKS = 64
_CPU_WORDS, _NODE_WORDS = 64, 16
_FIELDS = {
    "nvlink_links": 91,
    "power_average": 185,
    "power_instant": 186,
    "reset_required": 226,
    "drain_and_reset": 227,
    "recovery_action": 230,
}
_LINK_SPEED = 164
_LINK_REMOTE_GPU = 0
_UNION = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
_PROCESSES = {
    "C": "nvmlDeviceGetComputeRunningProcesses",
    "G": "nvmlDeviceGetGraphicsRunningProcesses",
    "M": "nvmlDeviceGetMPSComputeRunningProcesses",
}
# Newest first among those that still tell one clique id; the oldest has neither health nor version.
_FABRIC = (
    ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v3_t", 3),
    ("nvmlDeviceGetGpuFabricInfo_v4", "c_nvmlGpuFabricInfo_v4_t", 4),
    ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v2_t", 2),
    ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfoV_t", 2),
    ("nvmlDeviceGetGpuFabricInfo", "c_nvmlGpuFabricInfo_t", 1),
)
_POINTER_CLIQUE = 0


class _Asked:
    """Calls of the library about one thing; every call may fail and costs its own reading."""

    def __init__(self, library: Any, *subject: Any) -> None:
        self._library = library
        self._subject = subject
        self.errors: Dict[str, Any] = {}
        self.lost = False

    def __call__(self, name: str, *arguments: Any) -> Any:
        """What the library's function returns; None when it has none of this name, or the call fails."""
        function = getattr(self._library, name, None)
        if function is None or self.lost:
            return None
        try:
            return function(*self._subject, *arguments)
        except Exception as error:  # noqa: BLE001 - the library is not ours, and a reading is all that may be lost
            code = _code(error)
            self.lost = code == _LOST
            if code not in _ABSENT:
                self.errors[name] = code if code is not None else _said(error)
            return None

    def first(self, *names: str, arguments: Sequence[Any] = ()) -> Any:
        """What the first of these functions returns that the library and the driver both have."""
        for name in names:
            answer = self(name, *arguments)
            if answer is not None:
                return answer
        return None

    def structure(self, name: str, kind: str) -> Any:
        """The library's structure of this kind, filled in by a function; None when one of the two is missing."""
        made = getattr(self._library, kind, None)
        if made is None:
            return None
        filled = made()
        return None if self(name, ctypes.byref(filled)) is None else filled


def dump(library: Any) -> Document:
    """All readings through this library (`pynvml`), initialised or not; `failure` says why there are none."""
    document: Document = {"python": sys.executable}
    if not hasattr(library, "nvmlInit") or not hasattr(library, "nvmlDeviceGetCount"):
        return {**document, "failure": _failure("library", None, str(getattr(library, "__file__", library)))}
    try:
        library.nvmlInit()
    except Exception as error:  # noqa: BLE001 - the library is not ours
        return {**document, "failure": _failure("init", _code(error), _said(error))}
    system = _Asked(library)
    count = system("nvmlDeviceGetCount")
    if not isinstance(count, int) or count < 0:
        why = system.errors.get("nvmlDeviceGetCount")
        return {**document, "failure": _failure("count", why, "the cards cannot be counted")}
    cards = [_card(library, index) for index in range(count)]
    pids = {process["pid"] for card in cards for process in _listed(card)}
    found = {
        "driver_version": _text(system("nvmlSystemGetDriverVersion")),
        "cuda_version": system.first("nvmlSystemGetCudaDriverVersion", "nvmlSystemGetCudaDriverVersion_v2"),
        "cards": cards,
        "process_names": {str(pid): _text(system("nvmlSystemGetProcessName", pid)) for pid in sorted(pids)},
    }
    return {**document, **found, "errors": system.errors}


def _card(library: Any, index: int) -> Document:
    found = _Asked(library)
    handle = found("nvmlDeviceGetHandleByIndex", index)
    if handle is None:
        return {"index": index, "handle": False, "lost": found.lost, "errors": found.errors}
    ask = _Asked(library, handle)
    # Identity first: it is what is left to name a card that is lost on the way.
    card: Document = {
        "index": index,
        "handle": True,
        "pci": _member(ask("nvmlDeviceGetPciInfo"), "busId"),
        "uuid": _text(ask("nvmlDeviceGetUUID")),
        "name": _text(ask("nvmlDeviceGetName")),
        "serial": _text(ask("nvmlDeviceGetSerial")),
    }
    card.update(_state(library, ask))
    card.update(_wear(ask))
    card["fields"] = _fields(ask)
    card["mig_mode"] = _numbers(ask("nvmlDeviceGetMigMode"))
    card["mig_devices"] = _mig_devices(library, ask) if (card["mig_mode"] or [0])[0] == 1 else []
    card["processes"] = _processes(ask)
    card["links"] = _links(ask, card["fields"]["nvlink_links"])
    card["fabric"] = _fabric(ask)
    card.update(_places(ask))
    return {**card, "lost": ask.lost, "errors": ask.errors}


def _state(library: Any, ask: _Asked) -> Document:
    return {
        "memory": _memory(library, ask),
        "utilization": _member(ask("nvmlDeviceGetUtilizationRates"), "gpu"),
        "temperature": ask.first("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", arguments=(_GPU_SENSOR,)),
        "power_usage": ask("nvmlDeviceGetPowerUsage"),
        "power_limit": ask("nvmlDeviceGetEnforcedPowerLimit"),
        "persistence": ask("nvmlDeviceGetPersistenceMode"),
        "event_reasons": ask.first(
            "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
        ),
        "capability": _numbers(ask("nvmlDeviceGetCudaComputeCapability")),
        "pcie_width": ask("nvmlDeviceGetCurrPcieLinkWidth"),
        "pcie_width_max": ask("nvmlDeviceGetMaxPcieLinkWidth"),
    }


def _wear(ask: _Asked) -> Document:
    sram = ask.structure("nvmlDeviceGetSramEccErrorStatus", "c_nvmlEccSramErrorStatus_v1_t")
    retired = [ask("nvmlDeviceGetRetiredPages", cause) for cause in (0, 1)]
    return {
        "ecc_mode": _numbers(ask("nvmlDeviceGetEccMode")),
        "ecc": {
            "corrected_volatile": ask("nvmlDeviceGetTotalEccErrors", _SINGLE_BIT, _VOLATILE),
            "uncorrected_volatile": ask("nvmlDeviceGetTotalEccErrors", _DOUBLE_BIT, _VOLATILE),
            "corrected_aggregate": ask("nvmlDeviceGetTotalEccErrors", _SINGLE_BIT, _AGGREGATE),
            "uncorrected_aggregate": ask("nvmlDeviceGetTotalEccErrors", _DOUBLE_BIT, _AGGREGATE),
            "sram_threshold_exceeded": _member(sram, "bThresholdExceeded"),
        },
        "remapped_rows": _numbers(ask("nvmlDeviceGetRemappedRows")),
        "retired_pages": [None if pages is None else len(pages) for pages in retired],
        "retired_pending": ask("nvmlDeviceGetRetiredPagesPendingStatus"),
    }


def _memory(library: Any, ask: _Asked) -> Document:
    """Bytes; the first form of this call counts what the driver reserves for itself as used."""
    version = getattr(library, "nvmlMemory_v2", None)
    memory = None if version is None else ask("nvmlDeviceGetMemoryInfo", version)
    if memory is None:
        memory = ask("nvmlDeviceGetMemoryInfo")
    return {name: _member(memory, name) for name in ("total", "reserved", "used")}


def _fields(ask: _Asked) -> Document:
    values = ask("nvmlDeviceGetFieldValues", list(_FIELDS.values()))
    read = [None] * len(_FIELDS) if values is None else [_field(value) for value in values]
    return dict(zip(_FIELDS, read))


def _field(value: Any) -> Any:
    if value.nvmlReturn != 0 or not 0 <= value.valueType < len(_UNION):
        return None
    return getattr(value.value, _UNION[value.valueType])


def _mig_devices(library: Any, ask: _Asked) -> Optional[List[Document]]:
    """Instances by MIG device index; the indexes have holes where instances were destroyed."""
    most = ask("nvmlDeviceGetMaxMigDeviceCount")
    if most is None:
        return None
    found = []
    for index in range(most):
        handle = ask("nvmlDeviceGetMigDeviceHandleByIndex", index)
        if handle is not None:
            found.append(_mig_device(library, _Asked(library, handle), index))
    return found


def _mig_device(library: Any, ask: _Asked, index: int) -> Document:
    device: Document = {
        "index": index,
        "uuid": _text(ask("nvmlDeviceGetUUID")),
        "name": _text(ask("nvmlDeviceGetName")),
        "gpu_instance": ask("nvmlDeviceGetGpuInstanceId"),
        "compute_instance": ask("nvmlDeviceGetComputeInstanceId"),
        "multiprocessors": _member(
            ask.first("nvmlDeviceGetAttributes_v2", "nvmlDeviceGetAttributes"), "multiprocessorCount"
        ),
        "memory": _memory(library, ask),
        "uncorrected_sram": ask("nvmlDeviceGetMemoryErrorCounter", _DOUBLE_BIT, _VOLATILE, _SRAM),
        "processes": _processes(ask),
    }
    return {**device, "errors": ask.errors}


def _processes(ask: _Asked) -> Document:
    """Lists by kind of process. Of a card in MIG mode they are of all its instances, if the caller may know."""
    return {kind: _entries(ask.first(name, f"{name}_v2")) for kind, name in _PROCESSES.items()}


def _entries(processes: Optional[Iterable[Any]]) -> Optional[List[Document]]:
    if processes is None:
        return None
    return [
        {
            "pid": process.pid,
            "used": process.usedGpuMemory,
            "gpu_instance": _member(process, "gpuInstanceId"),
            "compute_instance": _member(process, "computeInstanceId"),
        }
        for process in processes
    ]


def _listed(card: Document) -> Iterable[Document]:
    for of in (card, *(card.get("mig_devices") or ())):
        for entries in (of.get("processes") or {}).values():
            yield from entries or ()


def _links(ask: _Asked, count: Optional[int]) -> Optional[List[Document]]:
    """One entry a link; None when the driver does not tell of links, as in MIG mode."""
    links: List[Document] = []
    for link in range(_MOST_LINKS if count is None else count):
        state = ask("nvmlDeviceGetNvLinkState", link)
        if state is None:
            break
        links.append({"state": state, **(_remote(ask, link) if state else {})})
    speeds = ask("nvmlDeviceGetFieldValues", [(_LINK_SPEED, link) for link in range(len(links))]) if links else ()
    for entry, value in zip(links, speeds or ()):
        entry["speed"] = _field(value)
    return links if links or count == 0 else None


def _remote(ask: _Asked, link: int) -> Document:
    kind = ask("nvmlDeviceGetNvLinkRemoteDeviceType", link)
    address = None
    if kind is None or kind == _LINK_REMOTE_GPU:
        address = _member(ask("nvmlDeviceGetNvLinkRemotePciInfo", link), "busId")
    return {"remote": kind, "remote_pci": address}


def _fabric(ask: _Asked) -> Optional[Document]:
    for function, kind, version in _FABRIC:
        info = ask.structure(function, kind)
        if info is not None:
            return {
                "version": version,
                "state": info.state,
                "status": info.status,
                "cluster": list(info.clusterUuid),
                "clique": _clique(info),
                "health_mask": _member(info, "healthMask"),
                "health_summary": _member(info, "healthSummary"),
            }
    return None


def _clique(info: Any) -> Optional[int]:
    """The id of the clique in which memory is reached by plain pointers; the newest form lists several kinds."""
    if hasattr(info, "cliqueId"):
        clique: int = info.cliqueId
        return clique
    listed: Sequence[Any] = info.cliques[: info.numCliques]
    return next((one.id for one in listed if one.type == _POINTER_CLIQUE), None)


def _places(ask: _Asked) -> Document:
    """Bit masks, in words of 64 bits, of the processors and NUMA nodes that are close to the card."""
    return {
        "cpus": _numbers(ask("nvmlDeviceGetCpuAffinity", _CPU_WORDS)),
        "nodes": _numbers(ask("nvmlDeviceGetMemoryAffinity", _NODE_WORDS, _NODE_SCOPE)),
        "own_node": ask("nvmlDeviceGetNumaNodeId"),
    }


def _member(structure: Any, name: str) -> Any:
    value = getattr(structure, name, None)
    return _text(value) if isinstance(value, bytes) else value


def _numbers(values: Optional[Iterable[Any]]) -> Optional[List[int]]:
    return None if values is None else [int(value) for value in values]


def _text(value: Any) -> Optional[str]:
    """Text of what old releases of the library return as bytes."""
    if value is None:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _code(error: Exception) -> Optional[int]:
    """NVML's number of an error of the library; None for any other exception."""
    value = getattr(error, "value", None)
    return value if isinstance(value, int) else None


def _said(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - the library looks its own messages up in the driver
        return type(error).__name__


def _failure(stage: str, error: Any, text: str) -> Document:
    return {"stage": stage, "error": error, "text": text}


def _imported() -> Tuple[Any, Optional[Document]]:
    # A file that lies in the current directory is not the library.
    sys.path[:] = [entry for entry in sys.path if entry]
    try:
        return importlib.import_module("pynvml"), None
    except ModuleNotFoundError as error:
        stage = "missing" if error.name == "pynvml" else "import"
        return None, _failure(stage, None, _said(error))
    except Exception as error:  # noqa: BLE001 - whatever an installation can break
        return None, _failure("import", None, _said(error))


def main() -> None:
    """Prints the document."""
    library, failure = _imported()
    document = {"python": sys.executable, "failure": failure} if failure else dump(library)
    sys.stdout.write(f"{json.dumps(document)}\n")


if __name__ == "__main__":
    main()
