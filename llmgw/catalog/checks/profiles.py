# SPDX-License-Identifier: Apache-2.0
"""Checks of `profiles`: parallelism that adds up, MIG's limits, nothing secret or reserved in args and env."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llmgw.capability.engines import ENGINES
from llmgw.catalog import codes
from llmgw.catalog.checks.references import dangling, repeated
from llmgw.catalog.checks.secrets_apart import check_secret_names, in_argument, in_variable
from llmgw.catalog.parallelism import CPU, Shape, is_mig, shape
from llmgw.catalog.problem import Problem
from llmgw.catalog.schema.document import Document
from llmgw.catalog.schema.models import Model
from llmgw.catalog.schema.profiles import Profile
from llmgw.catalog.tree import Path

_SHAPE_FIELDS = ("gpus", "nodes", "tensor_parallel", "pipeline_parallel", "data_parallel")
_RESERVED_VARIABLE = re.compile(r"LLMGW_.*|(CUDA|NVIDIA|GGML_VK)_VISIBLE_DEVICES|CUDA_DEVICE_ORDER")
_RESERVED_NETWORK = frozenset(
    {
        "GLOO_SOCKET_IFNAME",
        "HOST_IP",
        "NCCL_IB_HCA",
        "NCCL_MNNVL_ENABLE",
        "NCCL_SOCKET_IFNAME",
        "SGLANG_HOST_IP",
        "VLLM_HOST_IP",
    }
)
"""They differ from node to node, and one value for all of them joins nodes that do not reach each other."""
_PORTS = frozenset({"VLLM_PORT"})
_CACHE = frozenset({"HF_HUB_CACHE", "HF_HUB_OFFLINE"})
_SERVED_NAME = "`served_name` and `aliases` of the service say the names that it answers to"
_RESERVED_OPTIONS = {
    "--host": "engines bind to the node's address, which `llmgw_address` of the inventory says",
    "--port": "every replica has a port of its own, out of `port_range` of `fleet`",
    "--model": "`model` of the profile says what is served",
    "--nccl-port": "every replica finds a port of its own",
    "--grpc-port": "every replica finds a port of its own",
    "--config": "what is in a file would not be seen here; give its options one by one",
    "--alias": _SERVED_NAME,
    "--served-model-name": _SERVED_NAME,
}
"""With what says it instead."""


def check_profiles(document: Document) -> Iterator[Problem]:
    """Problems of every profile."""
    for name, profile in document.profiles.items():
        path: Path = ("profiles", name)
        yield from dangling((*path, "model"), "models", profile.model, document.models)
        yield from repeated((*path, "devices"), profile.devices, "the device class")
        yield from _parallelism(path, profile)
        model = document.models.get(profile.model)
        yield from _environment(path, profile, fetched=model is not None and model.weights.fetch != "never")
        yield from _secrets(path, profile)
        yield from _arguments(path, profile)
    yield from check_secret_names(document)


def _parallelism(path: Path, profile: Profile) -> Iterator[Problem]:
    fields = tuple((*path, field) for field in _SHAPE_FIELDS)
    devices: Path = (*path, "devices")
    classes = (devices, *((*devices, number) for number in range(len(profile.devices))))
    given = [field for field in _SHAPE_FIELDS if getattr(profile, field) not in (None, 1)]
    if CPU in profile.devices:
        if len(profile.devices) > 1:
            why = "`cpu` stands beside device classes, but a replica runs on one or the other"
            fix = "Make a profile of its own for `cpu`, and list both in the service."
            yield Problem(devices, codes.DEVICES, why, fix, reads=classes)
        else:
            for field in given:
                why = f"`{field}` counts devices, and this profile runs on `cpu`"
                fix = "Remove it, or name device classes in `devices`."
                yield Problem((*path, field), codes.PARALLEL, why, fix, at_key=True, reads=classes)
        return
    meant = shape(profile)
    slices = [device for device in profile.devices if is_mig(device)]
    if slices:
        for field in given:
            why = f"`{field}` is above one on `{slices[0]}`: MIG instances cannot be joined"
            fix = "Remove it, or use a class of whole cards."
            yield Problem((*path, field), codes.MIG, why, fix, at_key=True, reads=classes)
    elif meant is None or meant.world != meant.gpus * meant.nodes:
        at, why = _blamed(path, profile), _unequal(profile, meant)
        yield Problem(at, codes.PARALLEL, why, _balanced(profile), at_key=True, reads=fields)


def _blamed(path: Path, profile: Profile) -> Path:
    present = [
        field for field in ("tensor_parallel", "pipeline_parallel", "gpus") if getattr(profile, field) is not None
    ]
    return (*path, present[0]) if present else path


def _unequal(profile: Profile, meant: Shape | None) -> str:
    if meant is None:
        if profile.tensor_parallel is None and profile.pipeline_parallel is None:
            return f"gpus {profile.gpus} cannot be shared evenly by {profile.data_parallel} copies of data_parallel"
        world = (profile.tensor_parallel or 1) * (profile.pipeline_parallel or 1) * profile.data_parallel
        copies = " x data_parallel" if profile.data_parallel > 1 else ""
        return (
            f"tensor_parallel x pipeline_parallel{copies} is {world}, which {profile.nodes} nodes cannot share evenly"
        )
    copies = f" x data_parallel {meant.data_parallel}" if meant.data_parallel > 1 else ""
    return (
        f"tensor_parallel {meant.tensor_parallel} x pipeline_parallel {meant.pipeline_parallel}{copies} is "
        f"{meant.world}, but gpus {meant.gpus} x nodes {meant.nodes} is {meant.gpus * meant.nodes}"
    )


def _balanced(profile: Profile) -> str:
    if profile.gpus is None:
        return "Make the product a multiple of `nodes`."
    if profile.data_parallel > 1:
        return "Make `gpus` x `nodes` the product of `tensor_parallel`, `pipeline_parallel` and `data_parallel`."
    total = profile.gpus * profile.nodes
    tensor = profile.tensor_parallel or 1
    stages = (
        f"`pipeline_parallel: {total // tensor}`"
        if total % tensor == 0
        else f"a `tensor_parallel` that divides {total}"
    )
    return f"Set {stages}, or leave both out for tensor_parallel {profile.gpus} and pipeline_parallel {profile.nodes}."


def _environment(path: Path, profile: Profile, *, fetched: bool) -> Iterator[Problem]:
    for name, value in profile.env.items():
        at = (*path, "env", name)
        if _RESERVED_VARIABLE.fullmatch(name):
            why = f"llmgw itself sets `{name}` for each replica"
            remedy = "Remove it; `devices` and `gpus` say what a replica is given."
            yield Problem(at, codes.RESERVED, why, remedy, at_key=True)
        elif name in _PORTS:
            why = f"`{name}` would give every replica of a node the same port"
            yield Problem(at, codes.RESERVED, why, "Remove it; the engine finds free ones.", at_key=True)
        elif fetched and name in _CACHE:
            why = f"llmgw itself sets `{name}` where it fetches the weights"
            remedy = "Remove it; the weights go to the first of `llmgw_model_dirs` of each node."
            yield Problem(at, codes.RESERVED, why, remedy, at_key=True)
        elif name in _RESERVED_NETWORK:
            why = f"llmgw itself sets `{name}`, for each node its own"
            remedy = (
                "Remove it; `llmgw_fabrics` and `llmgw_socket_interface` of the inventory say how nodes are joined."
            )
            yield Problem(at, codes.RESERVED, why, remedy, at_key=True)
        else:
            yield from in_variable(at, name, value)


def _secrets(path: Path, profile: Profile) -> Iterator[Problem]:
    for name in profile.secrets:
        at = (*path, "secrets", name)
        if name in profile.env:
            why = f"`{name}` is both a secret and in `env`"
            yield Problem(at, codes.RESERVED, why, "Keep one of the two.", at_key=True, reads=((*path, "env", name),))
        elif _RESERVED_VARIABLE.fullmatch(name) or name in _RESERVED_NETWORK:
            yield Problem(at, codes.RESERVED, f"llmgw itself sets `{name}`", "Use another variable.", at_key=True)


def _arguments(path: Path, profile: Profile) -> Iterator[Problem]:
    own = ENGINES[profile.engine].own_options
    for number, item in enumerate(profile.args):
        at: Path = (*path, "args", number)
        option = _option(item)
        if option in _RESERVED_OPTIONS:
            why = f"llmgw itself gives `{option}` to each replica"
            remedy = f"Remove it; {_RESERVED_OPTIONS[option]}."
            yield Problem(at, codes.RESERVED, why, remedy)
        elif option in own:
            why = f"llmgw itself gives `{option}` to each replica of {profile.engine}"
            where = "of the model" if own[option] in Model.model_fields else "of the profile"
            remedy = f"Remove it; `{own[option]}` {where} says it."
            yield Problem(at, codes.RESERVED, why, remedy, reads=((*path, "engine"),))
        else:
            yield from in_argument(at, item, option)


def _option(item: str) -> str:
    """The option that an argument is, as engines read it: `--tensor_parallel_size=4` is `--tensor-parallel-size`."""
    name = item.partition("=")[0]
    return name.replace("_", "-") if name.startswith("--") else name
