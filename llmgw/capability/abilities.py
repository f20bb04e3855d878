# SPDX-License-Identifier: Apache-2.0
"""The shape of an engine's table: what it can do at all, and the compute capability below which it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class Wish(Protocol):
    """What of a profile an engine and a device must be able to do: a catalog's profile as written, or as resolved."""

    @property
    def engine(self) -> str:
        """The engine's kind."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Device classes; empty or `cpu` alone without devices."""

    @property
    def nodes(self) -> int:
        """Nodes that a replica spans."""

    @property
    def pipeline_parallel(self) -> int | None:
        """Stages; None: as many as nodes."""

    @property
    def data_parallel(self) -> int:
        """Copies of the model inside one replica."""

    @property
    def expert_parallel(self) -> bool:
        """Whether whole experts are spread over the devices."""

    @property
    def quantization(self) -> str | None:
        """The engine's name of the method."""

    @property
    def kv_cache_dtype(self) -> str | None:
        """The engine's name of the type."""

    @property
    def allow_slow_path(self) -> tuple[str, ...]:
        """Fields whose slow path is asked for."""

    @property
    def args(self) -> tuple[str, ...]:
        """Further arguments of the engine."""


@dataclass(frozen=True, slots=True)
class Floor:
    """Lowest compute capabilities of one method. `fast`: it runs as named. `slow`: the engine takes another path from
    here up to `fast`, described by `instead`; None: it has none and fails.
    """

    fast: str
    slow: str | None = None
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Wheel:
    """Architectures that an engine's packages hold code for. Machine code (`sass`) runs on the same major version from
    its minor version on; intermediate code (`ptx`) is compiled by the driver for anything not older than itself.
    """

    name: str
    sass: tuple[str, ...]
    ptx: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Release:
    """The oldest version of an engine that understands what llmgw tells it, and why none older does. `since` is None:
    every version. `devices_since`: the same where it is given devices.
    """

    newest: tuple[int, ...]
    """The newest one that command lines were checked with."""
    since: tuple[int, ...] | None = None
    why: str = ""
    devices_since: tuple[int, ...] | None = None
    devices_why: str = ""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What one engine can do. `ignored`: fields of a profile that it has no use for; a value in one is refused, never
    silently dropped.
    """

    pipeline_parallel: bool
    multi_node: bool
    cpu: bool
    ignored: tuple[str, ...] = ()
    own_options: Mapping[str, str] = field(default_factory=dict)
    """Options that llmgw writes itself, each with the field of the catalog that says it."""
    quantization: Mapping[str, Floor] = field(default_factory=dict)
    kv_cache: Mapping[str, Floor] = field(default_factory=dict)
    """By the beginning of the type's name; the longest that fits counts."""
    other_methods: tuple[str, ...] = ()
    """Further values of `quantization` that it takes, of which no floor is known."""
    other_cache_types: tuple[str, ...] = ()
    """Further types of the KV cache that it takes, of which no floor is known."""
    deprecated_methods: Mapping[str, str] = field(default_factory=dict)
    """Values of `quantization` that it refuses unless an option allows them -> that option."""
    dtype: Mapping[str, Floor] = field(default_factory=dict)
    """By the value of `--dtype`."""
    wheel: Wheel | None = None
    release: Release | None = None
    """None: its versions are not compared."""
    data_parallel: bool = False
    expert_parallel: bool = False
    key_variable: str | None = None
    """The variable by which it gets the key that its clients must bring; None: it takes none from the environment."""
    cuda: tuple[tuple[tuple[int, ...], int], ...] = ()
    """(version of the engine, major version of CUDA that its packages are built for from that version on), ascending.
    Older versions are unknown.
    """

    @property
    def methods(self) -> frozenset[str]:
        """Every value of `quantization` that it is known to take; empty where nothing is known."""
        return frozenset((*self.quantization, *self.other_methods))

    @property
    def cache_types(self) -> frozenset[str]:
        """Every type of the KV cache that it is known to take, some by their beginning up to a `_`."""
        return frozenset((*self.kv_cache, *self.other_cache_types))
