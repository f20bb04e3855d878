# SPDX-License-Identifier: Apache-2.0
"""What to say where `--limit` left no host to work on."""

from __future__ import annotations

import re
from pathlib import Path

from llmgw.apply.events import Progress
from llmgw.errors import LlmgwError
from llmgw.fleet.inventory import read_inventory
from llmgw.whatif.near import no_such

_NONE_LEFT = "leaves us with no hosts to target"
"""Ansible's words for it."""
_GROUPS = ("fleet", "gateway")
_BETWEEN = re.compile(r"[,;]")


def no_such_host(limit: str | None, inventory: Path, progress: Progress) -> list[str]:
    """Our own sentence instead of Ansible's, with names that may be meant; empty where something else was in the way.

    The inventory is read anew for that: nobody waits for it unless a run has come to nothing.
    """
    if limit is None or progress.asked or not any(_NONE_LEFT in line for line in progress.said):
        return []
    try:
        hosts = [host.name for host in read_inventory(inventory)]
    except LlmgwError:
        return []
    known = {*hosts, *_GROUPS}
    names = [name.strip() for name in _BETWEEN.split(limit)]
    unknown = next((name for name in names if name and name not in known and not name.startswith(("!", "&"))), None)
    if unknown is None:
        return [f"--limit {limit} leaves no host of the fleet; nothing was begun"]
    why = f"the inventory has no host or group {unknown}; nothing was begun"
    return [str(no_such("unknown-host", why, unknown, known, nothing="name hosts of the groups fleet and gateway"))]
