# SPDX-License-Identifier: BSD-2-Clause
"""Reads the short texts of nvidia-smi: `-L`, one-column queries, and what it says when it fails.

Private to llmgw and pure: text in, values out, nothing raises.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

_CARD = re.compile(r"\s*GPU\s+(?P<index>[0-9]{1,4}):\s*(?P<name>.*?)\s*\(UUID:\s*(?P<uuid>[^)\s]+)\)\s*")
_INSTANCE = re.compile(
    r"\s*MIG\s+(?P<profile>\S+)?\s*Device\s+(?P<index>[0-9]{1,4}):\s*\(UUID:\s*(?P<uuid>[^)\s]+)\)\s*"
)
# `GPU1: 0000:0A:00.0` names card 1; `GPU 0000:0A:00.0` and `GPU0000:0A:00.0` name no index.
_HANDLE = re.compile(
    r"\bGPU(?:(?P<index>[0-9]{1,3}):)?\s*(?P<bus_id>[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7])", re.IGNORECASE
)
_CAPABILITY = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}")


@dataclass(frozen=True)
class ListedInstance:
    """One MIG device of `-L`; drivers before 470 print no profile."""

    index: int
    profile: str | None
    uuid: str


@dataclass(frozen=True)
class ListedGpu:
    """One card of `-L`."""

    index: int
    name: str
    uuid: str
    instances: tuple[ListedInstance, ...] = ()


class Failure(NamedTuple):
    """Why nvidia-smi did not answer; card index and bus id (as printed) when the message names one."""

    condition: str
    gpu_index: int | None = None
    bus_id: str | None = None


class UnreachableCard(NamedTuple):
    """Bus id as printed, and the line that names it."""

    bus_id: str
    text: str


# The first that applies names the failure.
_CONDITIONS = (
    ("driver-not-loaded", re.compile(r"communicate with the NVIDIA driver", re.IGNORECASE)),
    ("driver-library-mismatch", re.compile(r"Driver/library version mismatch", re.IGNORECASE)),
    ("nvml-init-failed", re.compile(r"Failed to initialize NVML", re.IGNORECASE)),
    ("gpu-lost", re.compile(r"Unable to de(?:termine|tect) the device handle[^\n]*GPU is lost", re.IGNORECASE)),
    ("gpu-handle-error", re.compile(r"Unable to de(?:termine|tect) the device handle", re.IGNORECASE)),
    ("no-devices", re.compile(r"No devices were found", re.IGNORECASE)),
    ("mig-enabled-no-instances", re.compile(r"No GPU instances found", re.IGNORECASE)),
    (
        "mig-unsupported",
        re.compile(r"No MIG-supported devices found|Unable to enable MIG Mode[^\n]*Not Supported", re.IGNORECASE),
    ),
    ("insufficient-permissions", re.compile(r"(?<!\[)Insufficient Permissions", re.IGNORECASE)),
    ("topology-unavailable", re.compile(r"Failed to run topology matrix", re.IGNORECASE)),
    (
        "usage-error",
        re.compile(r"must be used in conjunction with|is missing its value|is not a valid field", re.IGNORECASE),
    ),
)


def failure(text: str) -> Failure | None:
    """What went wrong, None when the text holds no known message. A word in a field's brackets is no message."""
    for condition, pattern in _CONDITIONS:
        if pattern.search(text):
            named = _HANDLE.search(text)
            if named is None:
                return Failure(condition)
            return Failure(condition, _number(named.group("index")), named.group("bus_id"))
    return None if text.strip() else Failure("empty")


def unreachable_cards(text: str) -> tuple[UnreachableCard, ...]:
    """One for each line that says that a card's handle could not be had."""
    found = []
    for line in text.splitlines():
        said = failure(line)
        if said is not None and said.bus_id is not None and said.condition in {"gpu-lost", "gpu-handle-error"}:
            found.append(UnreachableCard(said.bus_id, line.strip()))
    return tuple(found)


def listing(text: str) -> tuple[ListedGpu, ...]:
    """The cards and MIG devices that `-L` lists; other lines are passed over."""
    gpus: list[ListedGpu] = []
    for line in text.splitlines():
        card = _CARD.fullmatch(line)
        instance = _INSTANCE.fullmatch(line)
        if card is not None:
            gpus.append(ListedGpu(int(card.group("index")), card.group("name"), card.group("uuid")))
        elif instance is not None and gpus:
            listed = ListedInstance(int(instance.group("index")), instance.group("profile"), instance.group("uuid"))
            gpus[-1] = replace(gpus[-1], instances=(*gpus[-1].instances, listed))
    return tuple(gpus)


def compute_capabilities(text: str) -> dict[str, str]:
    """Capability (`9.0`) by UUID, from `--query-gpu=uuid,compute_cap --format=csv,noheader`; {} when unknown to it."""
    found = {}
    for line in text.splitlines():
        uuid, _separator, capability = (part.strip() for part in line.partition(","))
        if _CAPABILITY.fullmatch(capability):
            found[uuid] = capability
    return found


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
