# SPDX-License-Identifier: Apache-2.0
"""What a catalog may say and seldom means: likely mistakes that are told as warnings and refuse nothing."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping

from llmgw.capability.device_classes import MEMORY_MIB, known_class
from llmgw.capability.engines import ENGINES
from llmgw.capability.unified_memory import doubt
from llmgw.catalog import codes
from llmgw.catalog.compile import Compiled
from llmgw.catalog.parallelism import CPU, is_mig, shape
from llmgw.catalog.problem import Problem, listed, located
from llmgw.catalog.schema.document import Document
from llmgw.catalog.schema.profiles import Profile
from llmgw.catalog.tree import Path
from llmgw.errors import LlmgwError
from llmgw.model.replica import GATEWAYS

Seen = Callable[[], Mapping[str, int]]
"""Device classes of the fleet by its facts, each with the most that one node has; asked only where it matters."""
_UNIFIED = "-unified"
_NEAR = 3
_MOST_CARDS = 8
_AUTO = "auto"


def doubts(found: Compiled, seen: Seen) -> tuple[LlmgwError, ...]:
    """The warnings of a catalog without errors, in the order of files and lines."""
    problems = [one for name, profile in found.document.profiles.items() for one in _profile(name, profile, seen)]
    problems += _access(found.document)
    errors = [located(one, found.source, otherwise=found.files[0]) for one in problems]
    return tuple(sorted(errors, key=lambda error: _place(error, found.files)))


def _access(document: Document) -> list[Problem]:
    networks = document.fleet.engines_reachable_from
    if not networks or GATEWAYS in networks:
        return []
    at: Path = ("fleet", "engines_reachable_from")
    why = f"engines answer only {', '.join(networks)}, and gateways that are elsewhere are kept out"
    return [Problem(at, codes.ACCESS, why, f"Add `{GATEWAYS}`, unless these networks have them all.")]


def _profile(name: str, profile: Profile, seen: Seen) -> Iterator[Problem]:
    path: Path = ("profiles", name)
    if "devices" not in profile.model_fields_set and profile.engine == "vllm":
        why = f"`devices` is left out, so replicas of {name} run on `cpu`, and {profile.engine} is seldom meant to"
        yield Problem(path, codes.DEFAULT_CPU, why, "Name device classes in `devices`, or write `devices: cpu`.")
    elif profile.engine == "vllm" and CPU in profile.devices and not _bounded(profile):
        why = "on `cpu` vLLM takes 92 % of the machine's memory for its cache where nothing says otherwise"
        yield Problem(path, codes.SHARED_MEMORY, why, "Set `memory_utilization` or `min_memory_gb`.")
    for number, one in enumerate(profile.devices):
        if one != CPU and not _is_known(one) and one not in seen():
            yield Problem((*path, "devices", number), codes.UNKNOWN_CLASS, _no_class(one), _near_class(one, seen()))
    if any(one.endswith(_UNIFIED) for one in profile.devices):
        told = doubt(profile.engine, profile.memory_utilization)
        if told is not None:
            about, _, advice = told.partition(": ")
            yield Problem(path, codes.SHARED_MEMORY, about, f"{advice[:1].upper()}{advice[1:]}.")
    yield from _words(path, profile)
    yield from _many(path, profile, seen)


def _bounded(profile: Profile) -> bool:
    return profile.memory_utilization is not None or profile.min_memory_gb is not None


def _is_known(device_class: str) -> bool:
    known = known_class(device_class)
    if known is None:
        return False
    card = device_class.partition("-mig-")[0]
    return card.endswith("-unified") or (card in MEMORY_MIB and (not known.mig or known.memory_mib is not None))


def _no_class(device_class: str) -> str:
    return f"no device class `{device_class}` is known, and no node has one by the stored facts"


def _near_class(device_class: str, seen: Iterable[str]) -> str:
    card, mig, instance = device_class.partition("-mig-")
    known = {*seen, *(name + mig + instance for name in MEMORY_MIB if not mig or known_class(name + mig + instance))}
    near = difflib.get_close_matches(device_class, sorted(known - {device_class}), _NEAR, cutoff=0.7)
    of_product = sorted(one for one in known if one.startswith(card.rpartition("-")[0] + "-") and mig in one)
    near = near if not of_product else [one for one in near if one in of_product] or of_product[:_NEAR]
    return _meant(near) if near else "Write it as `llmgw facts show` does, or leave it where such nodes are to come."


def _meant(near: Iterable[str]) -> str:
    return f"Did you mean {' or '.join(f'`{one}`' for one in near)}?"


def _words(path: Path, profile: Profile) -> Iterator[Problem]:
    can = ENGINES.get(profile.engine)
    if can is None:
        return
    for field, word, known, begins in (
        ("quantization", profile.quantization, can.methods, False),
        ("kv_cache_dtype", profile.kv_cache_dtype, can.cache_types, True),
    ):
        if word is None or not known or word == _AUTO or word in known:
            continue
        if begins and any(word.startswith(f"{one}_") for one in known):
            continue
        why = f"`{word}` is no {field} that is known of {profile.engine}, which may refuse to start with it"
        head, ending = word.partition("_")[0], "".join(word.partition("_")[1:]) if begins else ""
        near = difflib.get_close_matches(word, sorted(known), _NEAR, cutoff=0.6) or [
            one + ending for one in difflib.get_close_matches(head, sorted(known), _NEAR, cutoff=0.6)
        ]
        fix = _meant(near) if near else f"Those known are {listed(sorted(known))}."
        yield Problem((*path, field), codes.UNKNOWN_WORD, why, fix)


def _many(path: Path, profile: Profile, seen: Seen) -> Iterator[Problem]:
    meant = shape(profile)
    whole = [one for one in profile.devices if one != CPU and not is_mig(one)]
    if (
        meant is None
        or meant.gpus <= _MOST_CARDS
        or not whole
        or any(seen().get(one, 0) >= meant.gpus for one in whole)
    ):
        return
    at = next(
        (one for one in ("gpus", "tensor_parallel", "pipeline_parallel") if getattr(profile, one) is not None), None
    )
    why = f"a replica takes {meant.gpus} cards of each node, and hardly a node has more than {_MOST_CARDS}"
    total = meant.gpus * meant.nodes
    fix = (
        f"Add `nodes`: `nodes: {total // _MOST_CARDS}` and `gpus: {_MOST_CARDS}` are as many cards."
        if total % _MOST_CARDS == 0
        else f"Add `nodes`, with at most {_MOST_CARDS} cards on each."
    )
    yield Problem((*path, at) if at else path, codes.MANY_CARDS, why, fix)


def _place(error: LlmgwError, names: tuple[str, ...]) -> tuple[int, int, int]:
    where = error.where
    if where is None or where.path not in names:
        return len(names), 0, 0
    return names.index(where.path), where.line or 0, where.column or 0
