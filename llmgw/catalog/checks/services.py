# SPDX-License-Identifier: Apache-2.0
"""Checks of `services`: profiles that exist, names that reach one service only, rollouts that can make progress."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw.catalog import codes
from llmgw.catalog.checks.references import dangling, repeated
from llmgw.catalog.problem import Problem
from llmgw.catalog.schema.document import Document
from llmgw.catalog.schema.services import Service
from llmgw.catalog.tree import Path


def check_services(document: Document) -> Iterator[Problem]:
    """Problems of every service, and of services with one another."""
    for name, service in document.services.items():
        path: Path = ("services", name)
        for number, profile in enumerate(service.profiles):
            yield from dangling((*path, "profiles", number), "profiles", profile, document.profiles)
        yield from repeated((*path, "profiles"), service.profiles, "the profile")
        yield from repeated((*path, "aliases"), service.aliases, "the alias")
        yield from _sayable(document, name, service)
        if service.rollout.max_unavailable == 0 and service.rollout.max_surge == 0:
            at: Path = (*path, "rollout", "max_unavailable")
            why = "with no replica away and none extra (`max_surge` 0) no change could ever be rolled out"
            reads: tuple[Path, ...] = ((*path, "rollout", "max_surge"),)
            yield Problem(at, codes.ROLLOUT, why, "Set one of them to at least 1.", reads=reads)
    yield from _collisions(document)


def _sayable(document: Document, name: str, service: Service) -> Iterator[Problem]:
    """SGLang takes what follows a colon in a model's name for an adapter."""
    at: Path = ("services", name, "served_name")
    by = [one for one in service.profiles if one in document.profiles and document.profiles[one].engine == "sglang"]
    if by and ":" in (service.served_name or ""):
        why = f"SGLang, by which the profile {by[0]} serves, takes what follows `:` in a name for an adapter's"
        reads: tuple[Path, ...] = (("profiles", by[0], "engine"),)
        fix = "Use a `served_name` without `:`. Aliases may have one."
        yield Problem(at, codes.SERVED_NAME, why, fix, reads=reads)


def _collisions(document: Document) -> Iterator[Problem]:
    told: set[Path] = set()
    taken: dict[str, tuple[str, Path, tuple[Path, ...]]] = {}
    for service in sorted(document.services):
        for name, path, through in _names(document, service):
            owner, first, also = taken.setdefault(name, (service, path, through))
            # An alias of a model collides once, however many services it reaches.
            if owner == service or path in told:
                continue
            told.add(path)
            why = f"clients that ask for `{name}` would reach both the service `{owner}` and the service `{service}`"
            fix = "Give one of them another `served_name` or alias."
            if path[0] == "models" or first[0] == "models":
                fix = "Move the alias from the model to the one service that is to answer to it."
            # An alias of a model is one place for both services.
            other = first if first != path else ("services", owner)
            yield Problem(path, codes.SERVED_NAME, why, fix, reads=(first, *through, *also), other=other)


def _names(document: Document, name: str) -> Iterator[tuple[str, Path, tuple[Path, ...]]]:
    """Every name that reaches a service, with the path that says so and those that lead there."""
    service: Service = document.services[name]
    own: Path = ("services", name)
    if service.served_name is None:
        yield name, own, ((*own, "served_name"),)
    else:
        yield service.served_name, (*own, "served_name"), ()
    for number, alias in enumerate(service.aliases):
        yield alias, (*own, "aliases", number), ()
    through: tuple[Path, ...] = tuple((*own, "profiles", number) for number in range(len(service.profiles)))
    through += tuple(("profiles", profile, "model") for profile in service.profiles)
    for model in models_of(document, service):
        for number, alias in enumerate(document.models[model].aliases):
            yield alias, ("models", model, "aliases", number), through


def models_of(document: Document, service: Service) -> tuple[str, ...]:
    """Names of the models that a service's profiles serve, each once, in the order of the profiles."""
    profiles = [document.profiles[name] for name in service.profiles if name in document.profiles]
    return tuple(dict.fromkeys(profile.model for profile in profiles if profile.model in document.models))
