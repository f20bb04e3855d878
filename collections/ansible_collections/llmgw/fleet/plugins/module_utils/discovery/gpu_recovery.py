# SPDX-License-Identifier: BSD-2-Clause
"""What to do with a card that the driver or its errors ask something for: commands where there are any (D3).

Private to llmgw and pure.
"""

from __future__ import annotations

from ansible_collections.llmgw.fleet.plugins.module_utils import contract

_REMEDIES = {
    "reset": "{reset}",
    "gpu reset": "{reset}",
    "reboot": "Drain the node and reboot it; nothing less helps.",
    "node reboot": "Drain the node and reboot it; nothing less helps.",
    "drain p2p": "Stop all that uses several cards at once, switch persistence mode off (nvidia-smi -i {card} -pm 0) "
    "and look again; if the driver still asks, reset the card.",
    "drain and reset": "What runs on it may finish; start nothing new. {reset}",
    "recover imex domain": "Stop what uses the NVLink domain and restart IMEX on all its nodes: "
    "systemctl restart nvidia-imex.",
    "bus reset": "Reset the card's bus: reboot the node, or its host when the card is passed through.",
    "system reboot": "Drain the machine and reboot all of it, with its baseboard.",
}
_OTHER = "Take the card or the node out and do what the driver asks for."


def named(gpu: contract.Gpu) -> str:
    """How a command names the card: by address, which stays when cards are lost."""
    return gpu.pci_address or gpu.uuid or str(gpu.index)


def reset(gpu: contract.Gpu) -> str:
    """How to reset the card."""
    return f"When nothing runs on it, reset it (nvidia-smi --gpu-reset -i {named(gpu)}), or reboot the node."


def wanted(gpu: contract.Gpu) -> str | None:
    """The driver's word for what it asks for; None when that is nothing. Words of newer drivers ask for something."""
    action = gpu.recovery_action
    return None if action is None or action.strip().lower() == "none" else action


def remedy(gpu: contract.Gpu) -> str:
    """What to do about the driver's word."""
    text = _REMEDIES.get((gpu.recovery_action or "").strip().lower(), _OTHER)
    return text.format(card=named(gpu), reset=reset(gpu))
