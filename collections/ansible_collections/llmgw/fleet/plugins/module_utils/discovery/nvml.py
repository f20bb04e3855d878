# SPDX-License-Identifier: BSD-2-Clause
"""Cards from what `nvml_dump` printed (D1): text in, contract dataclasses out, in the forms that `smi_card` lays down.

Private to llmgw and pure. Equal hardware gives the same `contract.Gpu` as nvidia-smi does. NVML alone also tells NUMA,
processors and NVLink, which the topology gives on the other path.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, Iterable, Mapping

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import nvml_links, nvml_processes, nvml_words
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.smi_card import pci_address
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

_LOST, _RESET_REQUIRED = 15, 16
_BEGIN = '{"python": '
_DIGITS = 20
_UUID_BYTES = (4, 2, 2, 2, 6)


@dataclass(frozen=True)
class Failure:
    """Why NVML told nothing: `stage` is missing, import, library, init or count; `error` is NVML's number."""

    stage: str
    error: int | None = None
    text: str = ""
    python: str | None = None


@dataclass(frozen=True)
class Report:
    """One answer of NVML. By index of a card: `lost` is what NVML said of one that it cannot talk to, `unlisted` why it
    does not list the MIG devices of one that is in MIG mode, which is not the same as having none.
    """

    driver_version: str | None
    cuda_version: str | None
    gpus: tuple[contract.Gpu, ...]
    lost: Mapping[int, str] = field(default_factory=dict)
    unlisted: Mapping[int, str] = field(default_factory=dict)


def read(text: str) -> Report | Failure:
    """The cards, indexed as NVML does, or why there are none. Raises Unreadable for any other text.

    Only its own line counts: an interpreter prints before it as it starts, and a library after it as it ends. A number
    that no card can have is unknown.
    """
    lines = [line for line in text.splitlines() if line.startswith(_BEGIN)]
    try:
        document = json.loads(lines[-1] if lines else "", parse_int=_integer, parse_constant=_no_number)
        failure = document.get("failure")
        if failure is not None:
            return Failure(str(failure["stage"]), failure["error"], str(failure["text"]), document["python"])
        return _report(document)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise Unreadable(f"no document of NVML readings: {type(error).__name__}") from None


def _integer(digits: str) -> int | None:
    return int(digits) if len(digits) <= _DIGITS else None


def _no_number(_name: str) -> None:
    """What stands for NaN and the infinities."""


def _report(document: Mapping[str, Any]) -> Report:
    names: Mapping[str, str | None] = document["process_names"]
    cards: list[Mapping[str, Any]] = document["cards"]
    gpus = [_gpu(card, names) if card["handle"] else contract.Gpu(card["index"], None) for card in cards]
    links = [nvml_links.ends(card.get("links")) for card in cards]
    gpus = [replace(gpu, nvlink_peers=peers) for gpu, peers in zip(gpus, nvml_links.peers(gpus, links))]
    version = document["cuda_version"]
    return Report(
        driver_version=document["driver_version"],
        cuda_version=f"{version // 1000}.{version % 1000 // 10}" if version else None,
        gpus=tuple(gpus),
        lost={card["index"]: said for card in cards for said in [_said(card)] if said is not None},
        unlisted={card["index"]: why for card in cards for why in [_unlisted(card)] if why is not None},
    )


def _said(card: Mapping[str, Any]) -> str | None:
    """NVML's words about a card that cannot be used as it is; None for one that answers."""
    errors: Mapping[str, Any] = card["errors"]
    if card["lost"]:
        return nvml_words.error(_LOST)
    if not card["handle"]:
        return _words(errors.get("nvmlDeviceGetHandleByIndex"))
    if _RESET_REQUIRED in errors.values():
        return nvml_words.error(_RESET_REQUIRED)
    return _words(errors["nvmlDeviceGetUUID"]) if "nvmlDeviceGetUUID" in errors else None


def _unlisted(card: Mapping[str, Any]) -> str | None:
    if card["lost"] or not card["handle"] or not (card["mig_mode"] or (0,))[0]:
        return None
    for name in ("nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetMaxMigDeviceCount"):
        if name in card["errors"]:
            return _words(card["errors"][name])
    return "no count of them" if card["mig_devices"] is None else None


def _words(error: Any) -> str:
    return nvml_words.error(error) if isinstance(error, int) else str(error or "no handle")


def _gpu(card: Mapping[str, Any], names: Mapping[str, str | None]) -> contract.Gpu:
    memory = card["memory"]
    links = card["links"]
    active = [link for link in links or () if link["state"]]
    speeds = [link["speed"] for link in active if link.get("speed")]
    mig = card["mig_mode"] or (None, None)
    held = nvml_processes.held(card, names)
    instances = tuple(_instance(device, held) for device in card["mig_devices"] or ())
    return contract.Gpu(
        index=card["index"],
        uuid=card["uuid"],
        name=card["name"],
        pci_address=pci_address(card["pci"]),
        serial=card["serial"] or None,
        compute_capability=".".join(str(part) for part in card["capability"]) if card["capability"] else None,
        memory_total_mib=nvml_words.mib(memory["total"]) or None,
        memory_used_mib=nvml_words.mib(memory["used"]),
        memory_reserved_mib=nvml_words.mib(memory["reserved"]),
        utilization_percent=card["utilization"],
        temperature_c=card["temperature"],
        power_draw_w=_watts(_draw(card)),
        power_limit_w=_watts(card["power_limit"]),
        persistence_mode=_flag(card["persistence"]),
        pcie_width=card["pcie_width"] or None,
        pcie_width_max=card["pcie_width_max"] or None,
        throttle_reasons=None if card["event_reasons"] is None else nvml_words.clock_reasons(card["event_reasons"]),
        recovery_action=_recovery_action(card["fields"]),
        ecc=_ecc(card),
        remap=_remap(card),
        processes=held.of_card(),
        mig_mode=_flag(mig[0]),
        mig_pending=_flag(mig[1]),
        mig_instances=instances,
        numa_node=nvml_links.only(card["nodes"]),
        cpu_affinity=nvml_links.ranges(card["cpus"]),
        memory_numa_node=card["own_node"] if (card["own_node"] or 0) >= 0 else None,
        nvlink_links=None if links is None else len(links),
        nvlink_links_active=None if links is None else len(active),
        nvlink_gbps=min(speeds) / 1000 if speeds else None,
        fabric=_fabric(card["fabric"]),
    )


def _instance(device: Mapping[str, Any], held: nvml_processes.Held) -> contract.MigInstance:
    errors = device["uncorrected_sram"]
    return contract.MigInstance(
        uuid=device["uuid"],
        index=device["index"],
        gpu_instance_id=device["gpu_instance"],
        compute_instance_id=device["compute_instance"],
        profile=_profile(device["name"]),
        memory_total_mib=nvml_words.mib(device["memory"]["total"]) or None,
        memory_used_mib=nvml_words.mib(device["memory"]["used"]),
        multiprocessors=device["multiprocessors"],
        processes=held.of_instance(device["index"]),
        ecc=None if errors is None else contract.Ecc(uncorrected_volatile=errors),
    )


def _profile(name: str | None) -> str | None:
    """`3g.40gb` of `NVIDIA A100-SXM4-80GB MIG 3g.40gb`."""
    _card, separator, profile = (name or "").rpartition(" MIG ")
    return profile.strip() or None if separator else None


def _ecc(card: Mapping[str, Any]) -> contract.Ecc | None:
    counts = card["ecc"]
    ecc = contract.Ecc(
        enabled=_flag((card["ecc_mode"] or (None,))[0]),
        corrected_volatile=counts["corrected_volatile"],
        uncorrected_volatile=counts["uncorrected_volatile"],
        corrected_aggregate=counts["corrected_aggregate"],
        uncorrected_aggregate=counts["uncorrected_aggregate"],
        sram_threshold_exceeded=_flag(counts["sram_threshold_exceeded"]),
    )
    return None if ecc == contract.Ecc() else ecc


def _remap(card: Mapping[str, Any]) -> contract.Remap | None:
    rows = card["remapped_rows"] or (None, None, None, None)
    retired = [count for count in card["retired_pages"] if count is not None]
    remap = contract.Remap(
        corrected_rows=rows[0],
        uncorrected_rows=rows[1],
        pending=_flag(rows[2]),
        failed=_flag(rows[3]),
        retired_pages=sum(retired) if retired else None,
        retired_pending=_flag(card["retired_pending"]),
    )
    return None if remap == contract.Remap() else remap


def _recovery_action(fields: Mapping[str, Any]) -> str | None:
    """Drivers before the action had two flags, of which only a raised one says something."""
    if fields["recovery_action"] is not None:
        return nvml_words.recovery_action(fields["recovery_action"])
    if fields["reset_required"]:
        return "Reset"
    return "Drain and Reset" if fields["drain_and_reset"] else None


def _draw(card: Mapping[str, Any]) -> int | None:
    """Milliwatts. What PowerUsage tells is the average on some cards and the instant on others."""
    average: int | None = card["fields"]["power_average"]
    instant: int | None = card["fields"]["power_instant"]
    usage: int | None = card["power_usage"]
    return next((draw for draw in (average, instant, usage) if draw is not None), None)


def _fabric(found: Mapping[str, Any] | None) -> contract.GpuFabric | None:
    """None for a card without a fabric. Without a summary, newer drivers mean nothing by the mask either."""
    if found is None or found["state"] == 0:
        return None
    summary = found["health_summary"]
    mask = 0 if summary == 0 else found["health_mask"] or 0
    return contract.GpuFabric(
        state=nvml_words.fabric_state(found["state"]),
        status=nvml_words.error(found["status"]),
        cluster_uuid=_uuid(found["cluster"]),
        clique_id=found["clique"],
        health_summary=nvml_words.health_summary(summary),
        bandwidth=nvml_words.bandwidth(mask),
        route_recovery=nvml_words.route_recovery(mask),
        route_unhealthy=nvml_words.route_unhealthy(mask),
        access_timeout_recovery=nvml_words.access_timeout_recovery(mask),
        incorrect_configuration=nvml_words.misconfiguration(mask),
    )


def _uuid(values: Iterable[int]) -> str:
    text = bytes(list(values)).hex()
    parts = []
    for size in _UUID_BYTES:
        parts.append(text[: 2 * size])
        text = text[2 * size :]
    return "-".join(parts)


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else round(milliwatts / 1000, 2)


def _flag(value: int | None) -> bool | None:
    return None if value is None else value != 0
