# SPDX-License-Identifier: BSD-2-Clause
"""Whether a machine has at all what a part of discovery is about: a few cheap looks before its code is even loaded.

Private to llmgw. Loading a part costs the node more than running it does, and most machines lack most parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

BOUND_CARDS = "/proc/driver/nvidia/gpus"
CARD_TOOL = "nvidia-smi"
ADAPTERS = "/sys/class/infiniband"


def may_have_cards(host: Host) -> bool:
    """Whether the driver holds a card, or its tool is installed and must be asked."""
    return bool(host.list(BOUND_CARDS)) or host.which(CARD_TOOL) is not None


def may_have_adapters(host: Host) -> bool:
    """Whether the kernel knows of InfiniBand and its like, or does not tell."""
    return host.list(ADAPTERS) != () and host.exists(ADAPTERS)
