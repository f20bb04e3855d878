# SPDX-License-Identifier: Apache-2.0
"""Which device nodes a system unit may open: those that what it was given needs, and no others (P6, P7).

Groups are named, not cards: the number in /dev/nvidia3 is no index, and nothing else that is known tells it. Which of
the cards an engine uses, CUDA_VISIBLE_DEVICES says.
"""

from __future__ import annotations

import re

from llmgw.units.member_unit import MemberUnit

_CARDS = ("char-nvidia", "char-nvidia-frontend", "char-nvidiactl", "char-nvidia-uvm")
"""Drivers differ in which of the first three they register."""
_MIG = ("char-nvidia-caps",)
_NVLINK_DOMAIN = ("char-nvidia-caps-imex-channels",)
_RDMA = ("char-infiniband_verbs", "/dev/infiniband/rdma_cm", "char-gdrdrv")
_GRAPHICS = ("char-drm", "char-nvidia-modeset")
_MADE = re.compile(r"^ExecStartPre=-\+/usr/bin/nvidia-modprobe ((?:-c [0-9]+ )+)-u$", re.MULTILINE)
_VULKAN = "GGML_VK_VISIBLE_DEVICES"
_TRANSFERS = ("--kv-transfer-config", "--disaggregation-mode")
"""Options of engines that move their caches to other machines, by RDMA where there is any."""


def devices(unit: MemberUnit) -> list[str]:
    """Lines of [Service]. Without a device it has a /dev of its own, and nobody's hardware is in it."""
    allowed = _allowed(unit)
    if not allowed:
        return ["PrivateDevices=yes"]
    return ["DevicePolicy=closed", *(f"DeviceAllow={one} {_rights(one)}" for one in allowed)]


def before_cards(unit: MemberUnit) -> tuple[list[str], list[str]]:
    """Lines of [Unit] and of [Service] that make the cards' device nodes be there after a reboot.

    CUDA makes them itself by a setuid program, which no process of the sandbox can start. systemd grants a group of
    devices only when its module is loaded as the unit starts.
    """
    if not unit.member.devices:
        return [], []
    minors = _minors_before(unit) or " ".join(f"-c {number}" for number in range(max(1, _cards(unit) or 1)))
    after = ["modprobe@nvidia_uvm.service", "nvidia-persistenced.service", "nvidia-fabricmanager.service"]
    after += ["nvidia-imex.service"] if unit.member.domain is not None else []
    return (
        ["Wants=modprobe@nvidia_uvm.service", f"After={' '.join(after)}"],
        [f"ExecStartPre=-+/usr/bin/nvidia-modprobe {minors} -u"],
    )


def _cards(unit: MemberUnit) -> int | None:
    facts = unit.node.facts
    return len(facts.gpus) if facts is not None and facts.gpus is not None else None


def _minors_before(unit: MemberUnit) -> str | None:
    """What the member's unit says already, where the cards cannot be told now: nothing is rewritten for that (D18)."""
    facts = unit.node.facts
    if _cards(unit) is not None or facts is None:
        return None
    found = _MADE.search(unit.text_before)
    return found[1].rstrip() if found else None


def _allowed(unit: MemberUnit) -> list[str]:
    member = unit.member
    allowed: list[str] = []
    if member.devices:
        allowed += _CARDS
    if any(one.startswith("MIG-") for one in member.devices):
        allowed += _MIG
    if member.domain is not None:
        allowed += _NVLINK_DOMAIN
    if member.hcas or any(word.startswith(_TRANSFERS) for word in unit.launch.argv):
        allowed += _RDMA
    if member.devices and _VULKAN in unit.launch.env:
        allowed += _GRAPHICS
    return allowed


def _rights(device: str) -> str:
    """The right to make a node is for nvidia-modprobe, which runs in the unit; an engine has no capability to."""
    return "rwm" if device in _CARDS else "rw"
