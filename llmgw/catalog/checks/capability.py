# SPDX-License-Identifier: Apache-2.0
"""Checks of `profiles` against what engines and known device classes can do (C5).

A class that is not known by name refuses nothing here: placement decides by what the node reports. One that is too old
is no mistake beside another that will do: placement leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterator

from llmgw.capability.device_classes import compute_capability
from llmgw.capability.engines import inabilities
from llmgw.capability.shortfall import DTYPE, ENGINE, Shortfall, shortfalls
from llmgw.catalog import codes
from llmgw.catalog.checks.references import repeated
from llmgw.catalog.parallelism import CPU
from llmgw.catalog.problem import Problem
from llmgw.catalog.schema.document import Document
from llmgw.catalog.schema.profiles import Profile
from llmgw.catalog.tree import Path


def check_capability(document: Document) -> Iterator[Problem]:
    """Problems of every profile with its engine and its classes."""
    for name, profile in document.profiles.items():
        path: Path = ("profiles", name)
        yield from _engine(path, profile)
        yield from _slow_paths(path, profile)
        yield from _floors(path, profile)


def _engine(path: Path, profile: Profile) -> Iterator[Problem]:
    reads: tuple[Path, ...] = ((*path, "engine"), (*path, "devices"))
    for found in inabilities(profile):
        if CPU in profile.devices and found.field in ("nodes", "pipeline_parallel"):
            continue  # said already: it counts devices
        at = found.field if found.field in profile.model_fields_set else "engine"
        yield Problem((*path, at), codes.ENGINE, found.why, found.fix, at_key=at == found.field, reads=reads)


def _slow_paths(path: Path, profile: Profile) -> Iterator[Problem]:
    at: Path = (*path, "allow_slow_path")
    yield from repeated(at, profile.allow_slow_path, "the field")
    for number, field in enumerate(profile.allow_slow_path):
        if getattr(profile, field) is None:
            why = f"the slow path of `{field}` is allowed, and the profile has no `{field}`"
            fix = f"Add `{field}`, or take it out of the list."
            yield Problem((*at, number), codes.REFERENCE, why, fix, reads=((*path, field),))


def _floors(path: Path, profile: Profile) -> Iterator[Problem]:
    short: dict[str, list[Shortfall]] = {}
    for device_class in profile.devices:
        found = list(shortfalls(profile, compute_capability(device_class), device_class))
        if not found:
            return
        for one in found:
            short.setdefault(one.field, []).append(one)
    reads = tuple(
        (*path, field) for field in ("engine", "devices", "quantization", "kv_cache_dtype", "allow_slow_path")
    )
    for field, those in short.items():
        why = those[0].why + "".join(f", {one.device} has {one.has}" for one in those[1:])
        fix = next((one.fix for one in those if one.slow_path), those[0].fix)
        yield Problem(_place(path, profile, field), codes.CAPABILITY, why, fix, reads=reads)


def _place(path: Path, profile: Profile, field: str) -> Path:
    if field == ENGINE:
        return (*path, "devices", 0)
    if field == DTYPE:
        last = max(number for number, item in enumerate(profile.args) if item.partition("=")[0] == "--dtype")
        return (*path, "args", last)
    return (*path, field)
