# SPDX-License-Identifier: BSD-2-Clause
"""The key that an engine asks of its clients, for asking it which models it serves (R7, R10).

Private to llmgw. Only a run that changes units reads it: discovery, whose reads may be captured, does without.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.llmgw.fleet.plugins.module_utils import unitfile

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
_LONGEST = 4096


def file_of(state_dir: str, text: str) -> str | None:
    """The file of the secret that a unit's text names; None where it names none, or what is no name."""
    name = unitfile.parse(text).api_key
    return f"{state_dir}/secrets/{name}" if name is not None and _NAME.fullmatch(name) else None


def read(host: Host, path: str | None) -> str | None:
    """The key in a file, without the newline at its end; None where there is no file, or no key that HTTP carries."""
    content = None if path is None else host.read(path, _LONGEST)
    key = "" if content is None else content.decode("latin-1").rstrip("\r\n")
    return key if key and key.isprintable() and key.isascii() else None
