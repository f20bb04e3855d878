# SPDX-License-Identifier: BSD-2-Clause
"""Reads the files of nvidia-imex: where its node list is, and whom it lists. Private to llmgw and pure."""

from __future__ import annotations

import re

_NODE_LIST = re.compile(r"^[ \t]*IMEX_NODE_CONFIG_FILE[ \t]*=[ \t]*(?P<path>/\S+)[ \t\r]*$", re.MULTILINE)


def node_list_path(config: str) -> str | None:
    """Path of the node list that config.cfg names; None where it names none."""
    named = _NODE_LIST.findall(config)
    return str(named[-1]) if named else None


def listed_nodes(text: str) -> tuple[str, ...]:
    """Addresses or names of a node list, one a line, in its order."""
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return tuple(words[0] for words in lines if words)
