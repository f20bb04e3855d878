# SPDX-License-Identifier: Apache-2.0
"""What every process of a gateway does alike: how it is set up, and what it says of itself."""

from __future__ import annotations

import gc
import json
import os
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from llmgw.errors import LlmgwError
from llmgw.gateway.processes.listen import Address, parse_address
from llmgw.model.replica import GatewaySpec
from llmgw.routes.codec import load_bundle

COLLECT_AFTER = (50_000, 20, 100)
"""Garbage collection thresholds: requests leave no cycles behind, so collecting often only costs."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How the gateway was started. Listeners and workers that are None come from the bundle, or from the catalog's
    defaults.
    """

    bundle: Path
    listen: str | None = None
    admin_listen: str | None = None
    ready_file: Path | None = None
    drain_timeout_s: float = 120.0
    workers: int | None = None


def version() -> str:
    """The version of the installed llmgw."""
    try:
        return metadata.version("llmgw")
    except metadata.PackageNotFoundError:
        return "unknown"


def tune() -> None:
    """No garbage collection over what lives for ever; to be called when all of that is there."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


def write_ready(path: Path, url: str, admin_url: str) -> None:
    """Says where the gateway serves; whoever waits for the file never reads half of it."""
    document = {"url": url, "admin_url": admin_url, "pid": os.getpid()}
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(document) + "\n")
    temporary.replace(path)


def addresses(settings: Settings, gateway: GatewaySpec) -> tuple[Address, Address]:
    """Where clients and where operators connect. Raises LlmgwError `listen-address`."""
    return (
        parse_address(settings.listen or gateway.listen, "the gateway's address"),
        parse_address(settings.admin_listen or gateway.admin_listen, "the admin listener's address"),
    )


def started_with(settings: Settings, gateway: GatewaySpec) -> dict[str, str | int | None]:
    """Settings of the bundle that a running process cannot change, without those that options overrule."""
    names = ["tls_certificate", "tls_key"]
    names += ["listen"] if settings.listen is None else []
    names += ["admin_listen"] if settings.admin_listen is None else []
    names += ["workers"] if settings.workers is None else []
    return {name: getattr(gateway, name) for name in names}


def wanted_workers(settings: Settings) -> int:
    """How many processes are to serve clients; 1 where the bundle is not there yet, or cannot be read."""
    if settings.workers is not None:
        return settings.workers
    try:
        return load_bundle(settings.bundle.read_bytes(), str(settings.bundle)).routes.gateway.workers
    except (OSError, LlmgwError):
        return 1  # whoever follows the bundle says what is wrong with it
