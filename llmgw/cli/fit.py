# SPDX-License-Identifier: Apache-2.0
"""`llmgw fit`: on which device classes a model fits, how it is cut there, and how much context that leaves (P13)."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, TextIO

import typer

from llmgw.apply.inputs import Paths, find_paths
from llmgw.apply.moment import looked_at
from llmgw.capability.memory_habits import habits_of
from llmgw.cli import exits, options, unjudged
from llmgw.cli.fit_classes import offers
from llmgw.cli.fit_model import Asked, find
from llmgw.cli.fit_text import fit_document, fit_lines
from llmgw.cli.style import page, printable
from llmgw.errors import LlmgwError
from llmgw.fleet import store
from llmgw.fleet.devices import devices_of
from llmgw.fleet.inventory import read_inventory
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.model.ids import EngineKind, ModelName, NodeName, ProfileName
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.model.replica import ModelSpec, ProfileSpec
from llmgw.placement.memory.fit import Fit, Proposal
from llmgw.placement.memory.fit import fit as fit_class
from llmgw.placement.pools import pools_of

app = typer.Typer(add_completion=False, rich_markup_mode=None)
GB = 10**9
_GGUF, _OF_GGUF, _OF_OTHERS = "gguf", "llama.cpp", "vllm"


@app.command()
def fit(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="Directory of weights, GGUF file, or config.json; with -i also the Hugging Face id of weights in its "
            "facts, or a model of its catalog.",
        ),
    ],
    inventory: Annotated[
        Path | None,
        typer.Option(
            "--inventory", "-i", help="Try the classes of this fleet, by its stored facts.", show_default=False
        ),
    ] = None,
    facts: options.Facts = None,
    *,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--class", metavar="CLASS", help="Try this device class, h200 for h200-141g; may be given several times."
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(metavar="ENGINE", help="vllm, sglang or llama.cpp. [default: llama.cpp for GGUF, else vllm]"),
    ] = None,
    quantization: Annotated[
        str | None, typer.Option(metavar="METHOD", help="As in a profile; for weights that are not quantized yet.")
    ] = None,
    kv_cache_dtype: Annotated[str | None, typer.Option(metavar="TYPE", help="As in a profile.")] = None,
    max_model_len: Annotated[
        int | None, typer.Option(metavar="TOKENS", min=1, help="Context that has to fit. [default: the model's own]")
    ] = None,
    memory_utilization: Annotated[
        float | None, typer.Option(metavar="SHARE", min=0.1, max=1.0, help="As in a profile. [default: the engine's]")
    ] = None,
    size: Annotated[
        float | None,
        typer.Option(
            metavar="GB",
            min=0.001,
            max=1_000_000.0,
            help="Size of the weights (GB of 10^9 bytes), for a config.json alone.",
        ),
    ] = None,
    gpus_per_node: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=64, help="Cards that a node has. [default: 8, or by facts]")
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """Show on which device classes a model fits: cards, tensor and pipeline parallelism, context, requests at once.

    An estimate with bounds; unknown where the model is not understood. Touches no host.
    """
    paths = None if inventory is None else find_paths(inventory, None, facts)
    fleet = None if paths is None else _fleet(paths.facts)
    asked = find(
        model, None if size is None else round(size * GB), fleet, dict if paths is None else partial(_models, paths)
    )
    kind = _engine(engine, asked)
    profile = ProfileSpec(
        name=ProfileName("fit"),
        engine=EngineKind(kind),
        model=ModelSpec(ModelName(asked.name)),
        quantization=quantization,
        kv_cache_dtype=kv_cache_dtype,
        max_model_len=max_model_len,
        memory_utilization=memory_utilization,
        args=("--cache-type-k", kv_cache_dtype) if kind == _OF_GGUF and kv_cache_dtype else (),
    )
    architecture = asked.known.tensors.architecture if asked.known.tensors else None
    stored_as = architecture.quantization if architecture else None
    tried = offers(classes or (), fleet, gpus_per_node)
    found = [fit_class(profile, asked.known, offer, stored_as) for offer in tried]
    apart = frozenset[str]() if paths is None else _apart(paths, found)
    if as_json:
        print(json.dumps(fit_document(asked, found, kind, kv_cache_dtype, apart), indent=2))
    else:
        print(page(fit_lines(asked, found, kind, kv_cache_dtype, _width(), apart=apart)))
    return exits.OK


def _engine(given: str | None, asked: Asked) -> str:
    """The engine: the one that is named, if it can serve such weights. Raises LlmgwError."""
    kind = given or (_OF_GGUF if asked.format == _GGUF else _OF_OTHERS)
    if habits_of(kind) is None:
        raise typer.BadParameter(f"nothing is known of the memory that {kind} takes: it is vllm, sglang or llama.cpp")
    if asked.format is not None and (asked.format == _GGUF) != (kind == _OF_GGUF):
        what = "GGUF files are served by llama.cpp" if asked.format == _GGUF else "llama.cpp serves GGUF files"
        raise LlmgwError(
            "engine-format",
            f"{what}, and these weights are {asked.format}",
            fix=f"leave --engine out: {_OF_GGUF if asked.format == _GGUF else _OF_OTHERS} is taken then",
        )
    return kind


def _fleet(facts: Path) -> FleetSnapshot:
    """The nodes by their stored facts alone: neither inventory variables nor ages matter to what a model needs."""
    nodes = []
    for name, stored in sorted(store.load_all(facts).items()):
        if stored.error is not None:
            print(printable(stored.error), file=sys.stderr)
        if stored.facts is not None:
            devices = devices_of(stored.facts)
            nodes.append(Node(NodeName(name), name, NodeState.OK, facts=stored.facts, devices=devices))
    if not any(node.devices for node in nodes):
        raise LlmgwError(
            "no-devices",
            "no node has devices by the stored facts",
            where=str(facts),
            fix="run `llmgw facts refresh`, or name classes with --class and leave -i out",
        )
    return FleetSnapshot(tuple(nodes))


def _models(paths: Paths) -> dict[str, ModelSpec]:
    """The models that the catalog's services use, by name; none without a catalog. Raises LlmgwErrors."""
    from llmgw.catalog.load import load_catalog

    if not paths.catalog.exists():
        return {}
    profiles = (profile for service in load_catalog(paths.catalog).services for profile in service.profiles)
    return {str(profile.model.name): profile.model for profile in profiles}


def _apart(paths: Paths, found: Sequence[Fit]) -> frozenset[str]:
    """The classes for which several nodes are proposed although nothing joins so many of them."""
    wide = [one for one in found if one.proposal is not None and one.proposal.nodes > 1]
    if not wide:
        return frozenset()
    hosts = read_inventory(paths.inventory)
    stored = {host.name: store.load(paths.facts, host.name) for host in hosts}
    fleet = build_snapshot(hosts, stored, View(looked_at(paths.facts, time.time())), unjudged.tell)
    return frozenset(one.offer.device_class for one in wide if one.proposal and not _joined(fleet, one, one.proposal))


def _joined(fleet: FleetSnapshot, one: Fit, way: Proposal) -> bool:
    """Whether some NVLink domain or confirmed fabric joins as many nodes with as many such devices."""
    suits = {
        node.name
        for node in fleet.nodes
        if sum(device.device_class == one.offer.device_class for device in node.devices or ()) >= way.gpus
    }
    return any(len(suits & {*pool.nodes}) >= way.nodes for pool in pools_of(fleet))


def _width() -> int | None:
    """Columns of the terminal; None where a file or a program reads."""
    stream: TextIO | None = sys.stdout  # None where it is closed
    if (stream is None or not stream.isatty()) and not os.environ.get("COLUMNS"):
        return None
    return shutil.get_terminal_size().columns
