# SPDX-License-Identifier: Apache-2.0
"""How many devices a replica takes and how the model is cut over them, from what a profile says and leaves out."""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.catalog.schema.profiles import Profile

CPU = "cpu"


@dataclass(frozen=True, slots=True)
class Shape:
    """`gpus` are per node; all are at least 1, but for `gpus` 0 on CPU."""

    gpus: int
    nodes: int
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int = 1

    @property
    def world(self) -> int:
        """Ranks of the engine: tensor_parallel x pipeline_parallel x data_parallel."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel


def is_mig(device_class: str) -> bool:
    """Whether a class is one of MIG instances (D5)."""
    return "-mig-" in device_class


def shape(profile: Profile) -> Shape | None:
    """What the profile means, or None when its nodes or copies cannot share evenly. Both sides may still differ."""
    if profile.devices == (CPU,):
        return Shape(0, 1, 1, 1)
    tensor, pipeline, gpus, copies = (
        profile.tensor_parallel,
        profile.pipeline_parallel,
        profile.gpus,
        profile.data_parallel,
    )
    if tensor is None and pipeline is None:
        gpus = copies if gpus is None else gpus
        return None if gpus % copies else Shape(gpus, profile.nodes, gpus // copies, profile.nodes, copies)
    world = (tensor or 1) * (pipeline or 1) * copies
    if gpus is None:
        if world % profile.nodes:
            return None
        gpus = world // profile.nodes
    return Shape(gpus, profile.nodes, tensor or 1, pipeline or 1, copies)
