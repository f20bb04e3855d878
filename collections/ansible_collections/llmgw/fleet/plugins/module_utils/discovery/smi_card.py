# SPDX-License-Identifier: BSD-2-Clause
"""A card of nvidia-smi as contract facts, the same from `-q -x` and from `-q` (D1, D2).

Private to llmgw and pure. Another path to the same card gives an equal `contract.Gpu`, so these are the forms of facts:

- index: the order of PCI addresses, which is the driver's. pci_address: `0000:4c:00.0`, lower case, a domain of at
  least four digits.
- Text (uuid, name, serial, cluster_uuid) as the driver gives it. What it does not tell is None: an absent field, an
  empty one, N/A, Not Supported, Unknown Error, Insufficient Permissions, with or without brackets.
- Memory in whole MiB, the nearest (nvidia-smi rounds, it does not cut). `used` is without what the driver keeps for
  itself, which is `reserved` (drivers from 510; older ones count it as used and tell no reserved). A total of 0 is
  None.
- utilization_percent, temperature_c: whole numbers. In MIG mode the driver tells no utilisation.
- power_draw_w, power_limit_w: watts with two decimals; of the card, never of the module (Grace) or of its memory. The
  draw is what NVML's PowerUsage is (the average where the driver tells both); the limit is the enforced one.
- pcie_width, pcie_width_max: number of lanes.
- throttle_reasons: the active ones, sorted: applications_clocks_setting, display_clocks_setting, gpu_idle,
  hw_power_brake_slowdown, hw_slowdown, hw_thermal_slowdown, sw_power_cap, sw_thermal_slowdown, sync_boost, and on old
  drivers unknown and user_defined_clocks. (): none is active. None: the driver tells of none of them.
- recovery_action: `None`, `Reset`, `Reboot`, `Drain P2P`, `Drain and Reset`, `Recover IMEX Domain`, `Bus Reset`,
  `System Reboot` (NVML field 230, values 0 to 7; the last three are NVML's names, seen on no card yet). Drivers without
  it have two flags (NVML fields 226, 227): `Reset` where a reset is required, `Drain and Reset` where one is
  recommended, else None, for they do not say that nothing is to be done.
- ecc counts: corrected are all corrected (single-bit) errors, uncorrected all uncorrected (double-bit) ones, of SRAM
  and DRAM together (NVML TotalEccErrors). Where the driver has a total, that; else the sum of the counters it tells.
  Sources, thresholds and repairs are no errors. Volatile: since the driver loaded; aggregate: in the card's life.
- remap: rows and pages; None when the card tells of neither. retired_pages: those of single-bit and of double-bit
  errors together.
- processes: one each, sorted by pid, then by instance; kind C, G, C+G or M+C. None: the driver does not tell; ():
  none. On a MIG card each is with its instance; those that name no known instance are with the card.
- mig_instances: sorted by index. Their ecc holds uncorrected_volatile alone (SRAM, the one count that an instance has);
  None without it. A total memory of 0 is None.
- fabric: None when every part of it is. state `Not Started`, `In Progress`, `Completed` (NVML 0 is None); status the
  NVML error text, `Success`; health_summary `Healthy`, `Unhealthy`, `Limited Capacity`; bandwidth `Full`, `Degraded`;
  flags None where not supported; incorrect_configuration None where it is none, N/A or not told.
- Left to `gpu_build.finish`: device_class, form_factor, unified_memory, compute_capability, units of processes, profile
  and class of instances. Left to other probes: xids, NUMA nodes, NVLink, network adapters, Vulkan.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Iterable, Mapping

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.smi_tree import plain

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.readings.smi_reading import (
        SmiGpu,
        SmiMigDevice,
        SmiProcess,
        SmiReading,
    )

_INTEGER = re.compile(r"[0-9]{1,15}(?![0-9])")
_NOT_TOLD = frozenset(
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
        "gpu requires reset",
        "requested functionality has been deprecated",
    }
)
_LOST = frozenset({"gpu is lost", "gpu requires reset", "unknown error", "err!"})
_FLAGS = {"enabled": True, "yes": True, "true": True, "disabled": False, "no": False, "false": False}
_REASON = re.compile(r"clocks_(?:throttle|event)_reason_")
# Two reasons have other words in the text form than in the XML.
_REASONS = {"idle": "gpu_idle", "display_clock_setting": "display_clocks_setting"}


@dataclass(frozen=True)
class SmiCards:
    """One answer of nvidia-smi. `lost`: by index, the error that it printed in place of a card's identity."""

    driver_version: str | None
    cuda_version: str | None
    gpus: tuple[contract.Gpu, ...]
    lost: Mapping[int, str]


def cards(reading: SmiReading) -> SmiCards:
    """The cards of a reading, of either form."""
    return SmiCards(
        driver_version=_told(reading.driver),
        cuda_version=_told(reading.cuda),
        gpus=tuple(_gpu(card) for card in reading.gpus),
        lost={card.index: card.uuid for card in reading.gpus if card.uuid and _bare(card.uuid) in _LOST},
    )


def pci_address(printed: str | None) -> str | None:
    """A bus id as the kernel writes it: `00000000:4C:00.0` and `0000:4c:00.0` are both `0000:4c:00.0`."""
    if not printed:
        return None
    domain, separator, rest = printed.strip().lower().partition(":")
    if not separator or not rest:
        return None
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}"


def _gpu(card: SmiGpu) -> contract.Gpu:
    own = [process for process in card.processes if not any(_is_inside(process, one) for one in card.mig_devices)]
    return contract.Gpu(
        index=card.index,
        uuid=_told(card.uuid),
        name=_told(card.name),
        pci_address=pci_address(card.pci_bus_id),
        serial=_told(card.serial),
        memory_total_mib=_amount(card.memory_total_mib) or None,
        memory_used_mib=_amount(card.memory_used_mib),
        memory_reserved_mib=_amount(card.memory_reserved_mib),
        utilization_percent=_integer(card.gpu_util),
        temperature_c=card.temperature_c,
        power_draw_w=_watts(card.power_draw_w),
        power_limit_w=_watts(card.power_limit_w),
        persistence_mode=_flag(card.persistence),
        pcie_width=card.pcie_width,
        pcie_width_max=card.pcie_width_max,
        throttle_reasons=_throttle_reasons(card.clock_reasons),
        recovery_action=_recovery_action(card),
        ecc=_ecc(card),
        remap=_remap(card),
        processes=_processes(own) if card.processes_told else None,
        mig_mode=_flag(card.mig_current),
        mig_pending=_flag(card.mig_pending),
        mig_instances=tuple(
            _instance(device, card) for device in sorted(card.mig_devices, key=lambda device: device.index)
        ),
        fabric=_fabric(card.fabric),
    )


def _instance(device: SmiMigDevice, card: SmiGpu) -> contract.MigInstance:
    inside = [process for process in card.processes if _is_inside(process, device)]
    errors = _errors(_compared(device.ecc_errors), ("volatile", "volatilecount"), corrected=False)
    return contract.MigInstance(
        uuid=_told(device.uuid),
        index=device.index,
        gpu_instance_id=device.gi,
        compute_instance_id=device.ci,
        memory_total_mib=_amount(device.memory_total_mib) or None,
        memory_used_mib=_amount(device.memory_used_mib),
        multiprocessors=device.sm,
        processes=_processes(inside) if card.processes_told else None,
        ecc=None if errors is None else contract.Ecc(uncorrected_volatile=errors),
    )


def _is_inside(process: SmiProcess, device: SmiMigDevice) -> bool:
    return device.gi is not None and (process.gi, process.ci) == (device.gi, device.ci)


def _processes(processes: Iterable[SmiProcess]) -> tuple[contract.DeviceProcess, ...]:
    def place(one: SmiProcess) -> tuple[int, ...]:
        return (one.pid, *(-1 if number is None else number for number in (one.gi, one.ci)))

    found = (
        contract.DeviceProcess(one.pid, _told(one.name), one.used_mib, kind=_told(one.type))
        for one in sorted(processes, key=place)
    )
    # Some drivers list a process twice.
    return tuple(dict.fromkeys(found))


def _recovery_action(card: SmiGpu) -> str | None:
    action = _told(card.recovery_action)
    if action is None and _flag(card.reset_required):
        return "Reset"
    if action is None and _flag(card.drain_and_reset_recommended):
        return "Drain and Reset"
    return action


def _throttle_reasons(states: Mapping[str, str] | None) -> tuple[str, ...] | None:
    """Active reasons without their prefix, which changed with driver 535."""
    told = {name: text for name, text in (states or {}).items() if text in {"Active", "Not Active"}}
    if not told:
        return None
    names = [_REASON.sub("", name.strip().lower().replace(" ", "_")) for name, text in told.items() if text == "Active"]
    return tuple(sorted({_REASONS.get(name, name) for name in names}))


def _ecc(card: SmiGpu) -> contract.Ecc | None:
    errors = _compared(card.ecc_errors)
    ecc = contract.Ecc(
        enabled=_flag(card.ecc_mode),
        corrected_volatile=_errors(errors, ("volatile",), corrected=True),
        uncorrected_volatile=_errors(errors, ("volatile",), corrected=False),
        corrected_aggregate=_errors(errors, ("aggregate",), corrected=True),
        uncorrected_aggregate=_errors(errors, ("aggregate",), corrected=False),
        sram_threshold_exceeded=_flag(errors.get("aggregate/sramthresholdexceeded")),
    )
    return None if ecc == contract.Ecc() else ecc


def _errors(texts: Mapping[str, str], scopes: tuple[str, ...], *, corrected: bool) -> int | None:
    """Sum of the counters of a scope; None when it has none. The old form counts by place and has totals of its own."""
    total = "singlebit/total" if corrected else "doublebit/total"
    counts: dict[str, int] = {}
    for path, text in texts.items():
        scope, _separator, name = path.partition("/")
        number = _integer(text)
        correctable = "correctable" in name and ("uncorrectable" not in name) == corrected
        if scope in scopes and number is not None and (correctable or name == total):
            counts[name] = number
    # A counter beside its own parts (`... parity`, `... secded`) is their sum already.
    whole = [name for name in counts if not any(name != other and name.startswith(other) for other in counts)]
    return sum(counts[name] for name in whole) if counts else None


def _remap(card: SmiGpu) -> contract.Remap | None:
    pages = [count for count in (card.retired_single_bit, card.retired_double_bit) if count is not None]
    remap = contract.Remap(
        corrected_rows=card.remapped_corrected,
        uncorrected_rows=card.remapped_uncorrected,
        pending=_flag(card.remapped_pending),
        failed=_flag(card.remapped_failure),
        retired_pages=sum(pages) if pages else None,
        retired_pending=_flag(card.retired_pending),
    )
    return None if remap == contract.Remap() else remap


def _fabric(section: Mapping[str, str] | None) -> contract.GpuFabric | None:
    texts = _compared(section)
    configuration = _told(texts.get("health/incorrectconfiguration"))
    state = _told(texts.get("state"))
    fabric = contract.GpuFabric(
        state=state,
        status=_status(texts.get("status")) if _bare(state or "") == "completed" else None,
        cluster_uuid=_told(texts.get("clusteruuid")),
        clique_id=_integer(texts.get("cliqueid")),
        health_summary=_told(texts.get("health/summary")),
        bandwidth=_told(texts.get("health/bandwidth")),
        route_recovery=_flag(texts.get("health/routerecoveryinprogress")),
        route_unhealthy=_flag(texts.get("health/routeunhealthy")),
        access_timeout_recovery=_flag(texts.get("health/accesstimeoutrecovery")),
        incorrect_configuration=None if _bare(configuration or "") == "none" else configuration,
    )
    return None if fabric == contract.GpuFabric() else fabric


def _compared(section: Mapping[str, str] | None) -> dict[str, str]:
    """Texts by compared path: the names of both forms differ in blanks, case and underscores alone."""
    return {plain(path): text for path, text in (section or {}).items()}


def _bare(text: str) -> str:
    """Lower case, without the brackets that some fields put around what is not told."""
    text = text.strip().lower()
    return text[1:-1].strip() if text.startswith("[") and text.endswith("]") else text


def _status(text: str | None) -> str | None:
    """NVML's name of an error, which means something once the state is Completed: words that elsewhere stand for no
    answer are the answer here.
    """
    return None if text is None or _bare(text) in {"", "n/a"} else text


def _told(text: str | None) -> str | None:
    return None if text is None or _bare(text) in _NOT_TOLD else text


def _flag(text: str | None) -> bool | None:
    return _FLAGS.get(_bare(text or ""))


def _integer(text: str | None) -> int | None:
    found = _INTEGER.match((text or "").strip())
    return int(found.group(0)) if found else None


def _amount(mib: int | None) -> int | None:
    """None for less than nothing, which some drivers tell of what they cannot count."""
    return None if mib is None or mib < 0 else mib


def _watts(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
