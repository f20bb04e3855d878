# SPDX-License-Identifier: BSD-2-Clause
"""Files beside a unit: its environment files, which carry its name so that whose they are is never in doubt (R5).

Private to llmgw. They hold no secrets (R10): those lie elsewhere, under names that no unit owns.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from ansible_collections.llmgw.fleet.plugins.module_utils.unitfile import SUFFIX

_NAMED = re.compile(r"^EnvironmentFile=-?(?P<path>/\S+)$", re.MULTILINE)


def owns(unit: str, path: str) -> bool:
    """Whether a path is that of a file beside the unit: its name starts with the unit's own and a dot."""
    return PurePosixPath(path).name.startswith(unit[: -len(SUFFIX)] + ".")


def named_in(unit: str, text: str | None) -> tuple[str, ...]:
    """Paths of the unit's own environment files, as its text names them."""
    return tuple(path for path in _NAMED.findall(text or "") if owns(unit, path))


def objection(unit: str, path: str, directories: tuple[str, ...]) -> str | None:
    """Why a path cannot be that of a file beside the unit, or None."""
    parent = f"{PurePosixPath(path).parent}/"
    if ".." in PurePosixPath(path).parts or not parent.startswith(tuple(f"{one}/" for one in directories)):
        return f"{unit}: environment file {path} lies outside {' and '.join(directories)}"
    if not owns(unit, path):
        return f"{unit}: the name of environment file {path} must start with {unit[: -len(SUFFIX)]}."
    return None
