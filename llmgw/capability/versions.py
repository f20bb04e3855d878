# SPDX-License-Identifier: Apache-2.0
"""Which versions of an engine understand the command lines that llmgw writes (C5).

What is too old is refused. What is newer than anything that was checked is taken for the newest that was: an engine's
upgrade must not take its nodes out, and most options stay. What is no version, such as a build of the site's own, is
not judged.
"""

from __future__ import annotations

import re

from llmgw.capability.engines import ENGINES

_RELEASE = re.compile(r"v?([0-9]+(?:\.[0-9]+)+)")


def too_old(engine: str, version: str | None, *, devices: bool) -> str | None:
    """Why an installed version cannot be used, as a sentence with the version that it takes; None when it can.

    `devices`: whether it is given any.
    """
    has, can = _release(version), ENGINES.get(engine)
    known = can.release if can is not None else None
    if has is None or known is None:
        return None
    floors = [(known.since, known.why)]
    if devices:
        floors.append((known.devices_since, known.devices_why))
    failed = [(since, why) for since, why in floors if since is not None and has < since]
    if not failed:
        return None
    since, why = max(failed)
    return f"{engine} {version} is too old, llmgw needs {_written(since)} or newer: {why}"


def unchecked(engine: str, version: str | None) -> str | None:
    """That a version is newer than what command lines were checked with, as a sentence; None when it is not."""
    has, can = _release(version), ENGINES.get(engine)
    known = can.release if can is not None else None
    if has is None or known is None or has <= known.newest:
        return None
    newest = _written(known.newest)
    return f"{engine} {version} is newer than {newest}, the newest that llmgw knows: it is started like {newest}"


def _release(version: str | None) -> tuple[int, ...] | None:
    found = _RELEASE.match(version or "")
    return tuple(int(part) for part in found[1].split(".")) if found else None


def _written(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))
