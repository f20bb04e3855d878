# SPDX-License-Identifier: Apache-2.0
"""What could be done when weights and a request do not fit the devices' memory (P13)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from llmgw.model.why import Cost, Step
from llmgw.placement.memory.device_memory import classes_there
from llmgw.placement.why.asked import Asked
from llmgw.placement.why.edits import Edit

_ROUND = 1024
_RESTARTS = "running replicas of the profile restart"


def shorter_context(asked: Asked) -> Iterator[Edit]:
    """The longest context that is expected to fit, in whole thousands of tokens."""
    if asked.appetite is None:
        return
    now = asked.profile.max_model_len
    for name in classes_there(asked.profile, asked.node):
        sizes = [one.memory_total_mib for one in asked.node.devices or () if one.device_class == name]
        known = [size for size in sizes if size is not None]
        longest = asked.appetite.longest(name, max(known)) if known else None
        if longest is None or (now is not None and longest >= now):
            continue
        tokens = longest // _ROUND * _ROUND or longest
        step = Step(
            "max_model_len",
            f"lower max_model_len {f'from {now} ' if now is not None else ''}to {tokens}",
            {"max_model_len": tokens},
            asked.check.has,
            asked.check.needs,
            asked.check.unit,
            entry=asked.entry,
        )
        yield Edit(
            step,
            Cost.CHANGES,
            harshness=-tokens,
            on_profile=lambda profile, tokens=tokens: replace(profile, max_model_len=tokens),  # type: ignore[misc]
            caution=f"longer requests are then refused; {_RESTARTS}",
        )


def fewer_requests(asked: Asked) -> Iterator[Edit]:
    """Keep room for one request at a time."""
    now = asked.profile.parallel_requests
    if now is None or now <= 1:
        return
    words = f"lower parallel_requests from {now} to 1"
    yield Edit(
        Step("parallel_requests", words, {"parallel_requests": 1}, entry=asked.entry),
        Cost.CHANGES,
        on_profile=lambda profile: replace(profile, parallel_requests=1),
        caution=f"further requests then wait; {_RESTARTS}",
    )


def more_devices(asked: Asked) -> Iterator[Edit]:
    """Cut the model over twice as many devices, or four times, if the node has them free."""
    profile = asked.profile
    if profile.nodes > 1 or profile.on_cpu or profile.pipeline_parallel > 1:
        return
    free = max((len(asked.ledger.free_devices(name)) for name in profile.devices), default=0)
    for factor in (2, 4, 8):
        gpus = profile.gpus * factor
        tensor = gpus if profile.tensor_parallel == profile.gpus else profile.tensor_parallel
        if gpus > free:
            return
        step = Step(
            "more-devices",
            f"serve with {gpus} instead of {profile.gpus} devices",
            {"gpus": gpus, "tensor_parallel": tensor},
            free,
            gpus,
            "devices",
            entry=asked.entry,
        )
        yield Edit(
            step,
            Cost.CHANGES,
            harshness=factor,
            on_profile=lambda one, gpus=gpus, tensor=tensor: replace(  # type: ignore[misc]
                one, gpus=gpus, tensor_parallel=tensor
            ),
            caution=_RESTARTS if tensor == 1 else f"the model must have a multiple of {tensor} heads; {_RESTARTS}",
        )
