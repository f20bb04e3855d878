# SPDX-License-Identifier: BSD-2-Clause
"""Every kind of text that discovery can read, by the name that `llmgw facts parse` gives it.

Private to llmgw. A kind's module has `read(text)`, which returns a frozen dataclass or raises `Unreadable`; `asdict` of
the dataclass is the reading as JSON.
"""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from typing import Any

KINDS = {
    "nvidia-smi-xml": "smi_xml",
    "nvidia-smi-q": "smi_q",
    "smi-L": "smi_list",
    "smi-csv": "smi_csv",
    "topo-m": "topo",
    "topo-p2p": "topo_p2p",
    "nvlink-s": "nvlink",
    "imex": "imex",
    "imex-dev": "imex_dev",
    "fabric": "fabric",
    "sysfs-ib": "sysfs_ib",
    "mountinfo": "mountinfo",
    "meminfo": "meminfo",
    "error": "smi_error",
}
"""Kind to the module of this package that reads it."""


def reading(kind: str, text: str) -> dict[str, Any]:
    """What a text of this kind says, as JSON values. Raises KeyError for an unknown kind, Unreadable for the text."""
    module = import_module(f"{__package__}.{KINDS[kind]}")
    found: dict[str, Any] = asdict(module.read(text))
    return found
