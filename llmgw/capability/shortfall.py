# SPDX-License-Identifier: Apache-2.0
"""What of a profile is below its compute-capability floor on a device, and what to do about it (C5).

A slow path is never taken in silence: a profile asks for it by naming the field in `allow_slow_path`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from llmgw.capability.abilities import Abilities, Floor, Wheel, Wish
from llmgw.capability.engines import ENGINES

QUANTIZATION = "quantization"
KV_CACHE = "kv_cache_dtype"
DTYPE = "args"
ENGINE = "engine"

_VERSION = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})")


@dataclass(frozen=True, slots=True)
class Shortfall:
    """One thing that is below its floor. `field`: the key of the profile that asks for it; `has` and `needs`: compute
    capabilities, such as `8.0`; `slow_path`: the profile could ask for a slower way of it here.
    """

    field: str
    value: str
    device: str
    has: str
    needs: str
    why: str
    fix: str
    slow_path: bool = False

    @property
    def sentence(self) -> str:
        """Why not, and what to do about it."""
        return f"{self.why}; {self.fix[:1].lower()}{self.fix[1:].rstrip('.')}"


def shortfall(
    wish: Wish, compute_capability: str | None, device: str = "the device", *, stored: str | None = None
) -> Shortfall | None:
    """The first thing of a profile that is below its floor on a device of this compute capability, or None.

    None as compute capability means unknown, and refuses nothing. `device`: its name in the sentence. `stored`: the
    method that the engine chooses by itself, for weights that are stored quantized (`stored.stored_method`).
    """
    return next(shortfalls(wish, compute_capability, device, stored=stored), None)


def shortfalls(
    wish: Wish, compute_capability: str | None, device: str = "the device", *, stored: str | None = None
) -> Iterator[Shortfall]:
    """Everything that is below its floor; when the engine has no code for the device at all, that alone."""
    can, has = ENGINES.get(wish.engine), version(compute_capability)
    if can is None or has is None or compute_capability is None:
        return
    if can.wheel is not None and not runs_on(can.wheel, has):
        lowest = min(can.wheel.sass, key=_order)
        why = f"{can.wheel.name} has code for compute capability {lowest} and higher, {device} has {compute_capability}"
        needs = max([lowest, *(_needed(wish, asked) for asked in _asked(can, wish, stored))], key=_order)
        fix = f"Use a class of {needs} or higher, or another engine."
        yield Shortfall(ENGINE, wish.engine, device, compute_capability, needs, why, fix)
        return
    for asked in _asked(can, wish, stored):
        found = _below(wish, asked, compute_capability, device)
        if found is not None:
            yield found


def version(compute_capability: str | None) -> tuple[int, int] | None:
    """`8.9` as (8, 9); None for what is no compute capability, such as the name of an AMD architecture."""
    found = _VERSION.fullmatch(compute_capability or "")
    return (int(found[1]), int(found[2])) if found else None


def runs_on(wheel: Wheel, has: tuple[int, int]) -> bool:
    """Whether a wheel's code runs on a device of this compute capability."""
    machine = (version(one) for one in wheel.sass)
    intermediate = (version(one) for one in wheel.ptx)
    return any(one is not None and one[0] == has[0] and one[1] <= has[1] for one in machine) or any(
        one is not None and one <= has for one in intermediate
    )


class _Asked(NamedTuple):
    """Something of a profile that has a floor."""

    field: str
    value: str
    floor: Floor
    by_weights: bool = False
    """The weights ask for it and not the profile."""


def _asked(can: Abilities, wish: Wish, stored: str | None) -> Iterator[_Asked]:
    own = can.quantization.get(stored or "") if wish.quantization is None else None
    if stored is not None and own is not None:
        yield _Asked(QUANTIZATION, stored, own, by_weights=True)
    for field, value, floor in (
        (QUANTIZATION, wish.quantization, can.quantization.get(wish.quantization or "")),
        (KV_CACHE, wish.kv_cache_dtype, _by_beginning(can.kv_cache, wish.kv_cache_dtype)),
        (DTYPE, dtype := option(wish.args, "--dtype"), can.dtype.get(dtype or "")),
    ):
        if value is not None and floor is not None:
            yield _Asked(field, value, floor)


def _needed(wish: Wish, asked: _Asked) -> str:
    """The lowest compute capability at which the profile has what it asks for, as it may have it."""
    by_name = asked.field in wish.allow_slow_path
    return asked.floor.slow if by_name and asked.floor.slow is not None else asked.floor.fast


def _order(compute_capability: str) -> tuple[int, int]:
    return version(compute_capability) or (0, 0)


def _by_beginning(floors: Mapping[str, Floor], value: str | None) -> Floor | None:
    fitting = [beginning for beginning in floors if value is not None and value.startswith(beginning)]
    return floors[max(fitting, key=len)] if fitting else None


def option(args: tuple[str, ...], name: str) -> str | None:
    """The value of an option among arguments, `--name value` or `--name=value`; the last one counts, as for engines."""
    value = None
    for number, item in enumerate(args):
        key, separator, rest = item.partition("=")
        if key == name:
            value = rest if separator else args[number + 1] if number + 1 < len(args) else None
    return value


def _below(wish: Wish, asked: _Asked, has: str, device: str) -> Shortfall | None:
    floor, field, needs = asked.floor, asked.field, _needed(wish, asked)
    if _order(has) >= _order(needs):
        return None
    key = "--dtype" if field == DTYPE else f"the weights' own {field}" if asked.by_weights else field
    why = f"{key} {asked.value} of {wish.engine} needs compute capability {needs}, {device} has {has}"
    reachable = floor.slow is not None and _order(has) >= _order(floor.slow)
    otherwise = "serve other weights of the model" if asked.by_weights else f"leave {key} out"
    if reachable:
        otherwise = f"ask for the slow path by `allow_slow_path: [{field}]` ({floor.instead})"
    fix = f"Use a class of {needs} or higher, or {otherwise}."
    return Shortfall(field, asked.value, device, has, needs, why, fix, slow_path=reachable)
