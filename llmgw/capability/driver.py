# SPDX-License-Identifier: Apache-2.0
"""Which CUDA an engine's packages need of the driver.

Programs built for any minor version of a major one run under every driver of that major version or a newer one, so only
the major version counts.
"""

from __future__ import annotations

import re

from llmgw.capability.engines import ENGINES

_RELEASE = re.compile(r"v?([0-9]+(?:\.[0-9]+)*)")
_BUILT_FOR = re.compile(r"\+(?:.*\.)?cu([0-9]{2})[0-9]{1,2}(?![0-9])")


def cuda_needed(engine: str, version: str | None) -> int | None:
    """The major version of CUDA that an engine is built for: by its version's own suffix (`0.32.0+cu129`), else by the
    engine's table. None: unknown.
    """
    can = ENGINES.get(engine)
    if version is None or can is None:
        return None
    suffix = _BUILT_FOR.search(version)
    if suffix:
        return int(suffix[1])
    found = _RELEASE.match(version)
    release = tuple(int(part) for part in found[1].split(".")) if found else ()
    fitting = [cuda for since, cuda in can.cuda if release >= since]
    return fitting[-1] if fitting else None


def cuda_major(cuda_version: str | None) -> int | None:
    """The major part of what a driver says it offers: `12.8` is 12."""
    major = (cuda_version or "").partition(".")[0]
    return int(major) if major.isdecimal() else None
