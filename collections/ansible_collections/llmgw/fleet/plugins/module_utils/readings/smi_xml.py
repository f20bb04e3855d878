# SPDX-License-Identifier: BSD-2-Clause
"""Reads what `nvidia-smi -q -x` prints, of any driver: text in, contract dataclasses out.

Private to llmgw and pure. The schema grew over the years (DTD v7 to v13): an element that a driver does not know is
unknown (None) and never costs the card (D2). Names are the driver's; classes, owners and findings are added by `gpu`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.llmgw.fleet.plugins.module_utils import contract

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_DOCUMENT = re.compile(r"<nvidia_smi_log\b.*</nvidia_smi_log\s*>", re.DOTALL)
_INTEGER = re.compile(r"-?[0-9]{1,15}(?![0-9])")
_DECIMAL = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]{1,9})?(?![0-9])")
_NOT_REPORTED = frozenset(
    {
        "",
        "n/a",
        "not supported",
        "not available",
        "not found",
        "unknown",
        "unknown error",
        "err!",
        "insufficient permissions",
        "gpu is lost",
        "requested functionality has been deprecated",
    }
)
_LOST = frozenset({"gpu is lost", "unknown error", "err!"})
_CORRECTED = ("sram_correctable", "dram_correctable", "single_bit/total")
_UNCORRECTED = (
    "sram_uncorrectable",
    "sram_uncorrectable_parity",
    "sram_uncorrectable_secded",
    "dram_uncorrectable",
    "double_bit/total",
)
_RETIRED = ("multiple_single_bit_retirement/retired_count", "double_bit_retirement/retired_count")
_DRAW = (
    "gpu_power_readings/power_draw",
    "gpu_power_readings/average_power_draw",
    "gpu_power_readings/instant_power_draw",
    "power_readings/power_draw",
)
_LIMIT = (
    "gpu_power_readings/current_power_limit",
    "gpu_power_readings/enforced_power_limit",
    "power_readings/enforced_power_limit",
    "power_readings/power_limit",
)
_REASON = re.compile(r"clocks_(?:throttle|event)_reason_(.+)")


class _Place(NamedTuple):
    """Where on a MIG card: both None for the card itself."""

    gpu_instance: int | None
    compute_instance: int | None


class _Owned(NamedTuple):
    place: _Place
    process: contract.DeviceProcess


class SmiError(Exception):
    """The text is not a complete XML document of nvidia-smi."""


@dataclass(frozen=True)
class SmiReport:
    """One answer of nvidia-smi. `lost` are indexes of cards for which it printed an error in place of an identity."""

    driver_version: str | None
    cuda_version: str | None
    attached_gpus: int | None
    gpus: tuple[contract.Gpu, ...]
    lost: tuple[int, ...] = ()


def read(text: str) -> SmiReport:
    """The cards in the text, indexed by position. Messages around the document are passed over. Raises SmiError."""
    root = _parse(text)
    elements = root.findall("gpu")
    return SmiReport(
        driver_version=_text(root, "driver_version"),
        cuda_version=_text(root, "cuda_version"),
        attached_gpus=_integer(root, "attached_gpus"),
        gpus=tuple(_gpu(index, element) for index, element in enumerate(elements)),
        lost=tuple(index for index, element in enumerate(elements) if _is_lost(element)),
    )


def around(text: str) -> str:
    """What the text holds besides the XML document: warnings and messages about single cards."""
    return _DOCUMENT.sub("\n", text)


def pci_address(printed: str | None) -> str | None:
    """A bus id as the kernel writes it: `00000000:4C:00.0` and `0000:4c:00.0` are both `0000:4c:00.0`."""
    if not printed:
        return None
    domain, separator, rest = printed.strip().lower().partition(":")
    if not separator or not rest:
        return None
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}"


def _parse(text: str) -> Element:
    from xml.etree import ElementTree as ET  # noqa: PLC0415 - nodes without cards need no parser

    found = _DOCUMENT.search(text)
    if found is None:
        raise SmiError("no complete <nvidia_smi_log> document")
    try:
        # Only the root element is parsed: without a DTD there are no entities that could be expanded.
        root = ET.fromstring(found.group(0))  # noqa: S314
    except (ET.ParseError, ValueError) as error:
        raise SmiError(f"not well-formed: {error}") from None
    return root


def _gpu(index: int, element: Element) -> contract.Gpu:
    total = _integer(element, "fb_memory_usage/total")
    processes = _processes(element)
    instances = _mig_instances(element, processes or [])
    carved = {_Place(instance.gpu_instance_id, instance.compute_instance_id) for instance in instances}
    return contract.Gpu(
        index=index,
        uuid=_text(element, "uuid"),
        name=_text(element, "product_name"),
        pci_address=pci_address(element.get("id") or _text(element, "pci/pci_bus_id")),
        serial=_text(element, "serial"),
        memory_total_mib=total or None,
        memory_used_mib=_integer(element, "fb_memory_usage/used"),
        utilization_percent=_integer(element, "utilization/gpu_util"),
        temperature_c=_integer(element, "temperature/gpu_temp"),
        power_draw_w=_first_decimal(element, _DRAW),
        power_limit_w=_first_decimal(element, _LIMIT),
        persistence_mode=_flag(element, "persistence_mode"),
        throttle_reasons=_throttle_reasons(element),
        recovery_action=_text(element, "gpu_recovery_action"),
        ecc=_ecc(element),
        remap=_remap(element),
        processes=None
        if processes is None
        else tuple(owned.process for owned in processes if owned.place not in carved),
        mig_mode=_flag(element, "mig_mode/current_mig"),
        mig_pending=_flag(element, "mig_mode/pending_mig"),
        mig_instances=instances,
        fabric=_fabric(element),
    )


def _is_lost(element: Element) -> bool:
    return _bare(element.findtext("uuid") or "").lower() in _LOST


def _ecc(element: Element) -> contract.Ecc | None:
    ecc = contract.Ecc(
        enabled=_flag(element, "ecc_mode/current_ecc"),
        corrected_volatile=_sum(element, "ecc_errors/volatile/", _CORRECTED),
        uncorrected_volatile=_sum(element, "ecc_errors/volatile/", _UNCORRECTED),
        corrected_aggregate=_sum(element, "ecc_errors/aggregate/", _CORRECTED),
        uncorrected_aggregate=_sum(element, "ecc_errors/aggregate/", _UNCORRECTED),
        sram_threshold_exceeded=_flag(element, "ecc_errors/aggregate/sram_threshold_exceeded"),
    )
    return None if ecc == contract.Ecc() else ecc


def _remap(element: Element) -> contract.Remap | None:
    retired_pending = _flag(element, "retired_pages/pending_retirement")
    if retired_pending is None:
        retired_pending = _flag(element, "retired_pages/pending_blacklist")
    remap = contract.Remap(
        corrected_rows=_integer(element, "remapped_rows/remapped_row_corr"),
        uncorrected_rows=_integer(element, "remapped_rows/remapped_row_unc"),
        pending=_flag(element, "remapped_rows/remapped_row_pending"),
        failed=_flag(element, "remapped_rows/remapped_row_failure"),
        retired_pages=_sum(element, "retired_pages/", _RETIRED),
        retired_pending=retired_pending,
    )
    return None if remap == contract.Remap() else remap


def _fabric(element: Element) -> contract.GpuFabric | None:
    fabric = contract.GpuFabric(
        state=_text(element, "fabric/state"),
        status=_text(element, "fabric/status"),
        cluster_uuid=_text(element, "fabric/clusterUuid"),
        clique_id=_integer(element, "fabric/cliqueId"),
        health_summary=_text(element, "fabric/health/summary"),
        bandwidth=_text(element, "fabric/health/bandwidth"),
    )
    return None if fabric == contract.GpuFabric() else fabric


def _throttle_reasons(element: Element) -> tuple[str, ...] | None:
    """Active reasons without their prefix, which changed with driver 535; None when the driver lists none at all."""
    listed = False
    active = []
    for section in ("clocks_event_reasons", "clocks_throttle_reasons"):
        for child in element.findall(f"{section}/*"):
            named = _REASON.fullmatch(child.tag)
            state = (child.text or "").strip()
            if named is None or state not in {"Active", "Not Active"}:
                continue
            listed = True
            if state == "Active":
                active.append(named.group(1))
    return tuple(active) if listed else None


def _mig_instances(element: Element, processes: list[_Owned]) -> tuple[contract.MigInstance, ...]:
    instances = []
    for device in element.findall("mig_devices/mig_device"):
        index = _integer(device, "index")
        if index is None:
            continue
        place = _Place(_integer(device, "gpu_instance_id"), _integer(device, "compute_instance_id"))
        instances.append(
            contract.MigInstance(
                uuid=_text(device, "uuid"),
                index=index,
                gpu_instance_id=place.gpu_instance,
                compute_instance_id=place.compute_instance,
                memory_total_mib=_integer(device, "fb_memory_usage/total") or None,
                memory_used_mib=_integer(device, "fb_memory_usage/used"),
                multiprocessors=_integer(device, "device_attributes/shared/multiprocessor_count"),
                processes=tuple(owned.process for owned in processes if owned.place == place),
            )
        )
    return tuple(instances)


def _processes(element: Element) -> list[_Owned] | None:
    """All processes on the card with the MIG instance they are in; None when the driver does not tell."""
    section = element.find("processes")
    if section is None or (section.text or "").strip().lower() == "n/a":
        return None
    found = []
    for info in section.findall("process_info"):
        pid = _integer(info, "pid")
        if pid is not None:
            place = _Place(_integer(info, "gpu_instance_id"), _integer(info, "compute_instance_id"))
            name, used = _text(info, "process_name"), _integer(info, "used_memory")
            found.append(_Owned(place, contract.DeviceProcess(pid, name, used, kind=_text(info, "type"))))
    return found


def _bare(text: str) -> str:
    """Text without blanks and without the brackets that some columns put around what is not reported."""
    text = text.strip()
    return text[1:-1].strip() if text.startswith("[") and text.endswith("]") else text


def _text(element: Element, path: str) -> str | None:
    text = (element.findtext(path) or "").strip()
    return None if _bare(text).lower() in _NOT_REPORTED else text


def _integer(element: Element, path: str) -> int | None:
    found = _INTEGER.match((element.findtext(path) or "").strip())
    return int(found.group(0)) if found else None


def _sum(element: Element, prefix: str, names: tuple[str, ...]) -> int | None:
    """Sum of the counters that the driver has; None when it has none of them."""
    counts = [_integer(element, prefix + name) for name in names]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _first_decimal(element: Element, paths: tuple[str, ...]) -> float | None:
    for path in paths:
        found = _DECIMAL.match((element.findtext(path) or "").strip())
        if found:
            return float(found.group(0))
    return None


def _flag(element: Element, path: str) -> bool | None:
    return {"enabled": True, "yes": True, "disabled": False, "no": False}.get((_text(element, path) or "").lower())
