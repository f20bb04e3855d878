# SPDX-License-Identifier: BSD-2-Clause
"""NVML's numbers as the words that nvidia-smi prints for them, so that both paths give equal facts (D1).

Private to llmgw and pure. Numbers are those of nvml.h; a number that is not known here keeps its number in its word.
"""

from __future__ import annotations

_MIB = 1024 * 1024
_ERRORS = {
    0: "Success",
    1: "Uninitialized",
    2: "Invalid Argument",
    3: "Not Supported",
    4: "Insufficient Permissions",
    5: "Already Initialized",
    6: "Not Found",
    7: "Insufficient Size",
    8: "Insufficient External Power",
    9: "Driver Not Loaded",
    10: "Timeout",
    11: "Interrupt Request Issue",
    12: "NVML Shared Library Not Found",
    13: "Function Not Found",
    14: "Corrupted infoROM",
    15: "GPU is lost",
    16: "GPU requires reset",
    17: "The operating system has blocked the request",
    18: "Driver/library version mismatch",
    19: "In use by another client",
    20: "Insufficient Memory",
    21: "No data",
    22: "VGPU ECC is not supported",
    23: "Insufficient Resources",
    24: "Frequency not supported",
    25: "Argument version mismatch",
    26: "Deprecated",
    27: "Not Ready",
    28: "GPU Not Found",
    29: "Invalid State",
    30: "Reset Type Not Supported",
    999: "Unknown Error",
}
_RECOVERY = (
    "None",
    "Reset",
    "Reboot",
    "Drain P2P",
    "Drain and Reset",
    "Recover IMEX Domain",
    "Bus Reset",
    "System Reboot",
)
_REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clocks_setting",
}
_FABRIC_STATES = {1: "Not Started", 2: "In Progress", 3: "Completed"}
_SUMMARIES = {1: "Healthy", 2: "Unhealthy", 3: "Limited Capacity"}
_MISCONFIGURED = {
    2: "Incorrect SystemGuid",
    3: "Incorrect Chassis Serial Number",
    4: "No Partition",
    5: "Insufficient Nvlink Resources",
    6: "Incompatible GPU Firmware",
    7: "Invalid Location",
    8: "GPU State Invalid",
}
_DEGRADED, _ROUTE_RECOVERY, _ROUTE_UNHEALTHY, _ACCESS_TIMEOUT, _MISCONFIGURATION = 0, 2, 4, 6, 8


def mib(size: int | None) -> int | None:
    """Bytes as whole MiB, the nearest, as nvidia-smi rounds."""
    return None if size is None else (size + _MIB // 2) // _MIB


def error(number: int) -> str:
    """What nvidia-smi prints for an error."""
    return _ERRORS.get(number, f"Error {number}")


def recovery_action(number: int) -> str:
    """What the driver asks for to clear a fault; `None` when nothing. Unknown numbers ask for something, too (D3)."""
    return _RECOVERY[number] if 0 <= number < len(_RECOVERY) else f"Action {number}"


def clock_reasons(mask: int) -> tuple[str, ...]:
    """Active reasons of a mask, sorted; bits that nvidia-smi has no word for are left out."""
    return tuple(sorted(word for bit, word in _REASONS.items() if mask & bit))


def fabric_state(number: int) -> str:
    """State of the handshake of a card that has a fabric."""
    return _FABRIC_STATES.get(number, f"State {number}")


def health_summary(number: int | None) -> str | None:
    """Summary of a card's fabric health; None when it has none."""
    return _SUMMARIES.get(number, f"Summary {number}") if number else None


def bandwidth(mask: int) -> str | None:
    """`Degraded` or `Full`, from a fabric health mask."""
    degraded = _flag(mask, _DEGRADED)
    return None if degraded is None else ("Degraded" if degraded else "Full")


def route_recovery(mask: int) -> bool | None:
    """Whether routes are being recovered, from a fabric health mask."""
    return _flag(mask, _ROUTE_RECOVERY)


def route_unhealthy(mask: int) -> bool | None:
    """Whether the recovery of routes failed, from a fabric health mask."""
    return _flag(mask, _ROUTE_UNHEALTHY)


def access_timeout_recovery(mask: int) -> bool | None:
    """Whether a timed out access is being recovered from, from a fabric health mask."""
    return _flag(mask, _ACCESS_TIMEOUT)


def misconfiguration(mask: int) -> str | None:
    """What is wrong in the fabric's configuration, from a fabric health mask; None: nothing, or unknown."""
    number = mask >> _MISCONFIGURATION & 0xF
    return _MISCONFIGURED.get(number, f"Configuration {number}") if number > 1 else None


def _flag(mask: int, shift: int) -> bool | None:
    """A field of two bits: 1 is true, 2 is false, 0 is not supported."""
    return {1: True, 2: False}.get(mask >> shift & 0x3)
