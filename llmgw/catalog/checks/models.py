# SPDX-License-Identifier: Apache-2.0
"""Checks of `models`: weights named once and one way."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw.catalog import codes
from llmgw.catalog.checks.references import repeated
from llmgw.catalog.problem import Problem
from llmgw.catalog.schema.document import Document


def check_models(document: Document) -> Iterator[Problem]:
    """Models that name no weights, or name them twice."""
    for name, model in document.models.items():
        path = ("models", name)
        hub, local = (*path, "hf_id"), (*path, "path")
        if model.hf_id is None and model.path is None:
            why = f"the model `{name}` says neither `hf_id` nor `path`: there are no weights to serve"
            yield Problem(
                path, codes.WEIGHTS, why, "Add `hf_id: org/name` or `path: /...`.", at_key=True, reads=(hub, local)
            )
        if model.hf_id is not None and model.path is not None:
            why = f"the model `{name}` has both `hf_id` and `path`: which weights are meant is open"
            yield Problem(local, codes.WEIGHTS, why, "Keep one of the two.", at_key=True, reads=(hub,), other=hub)
        if model.revision is not None and model.hf_id is None:
            why = "a `revision` is one of a Hugging Face repository, and this model has no `hf_id`"
            yield Problem(
                (*path, "revision"),
                codes.WEIGHTS,
                why,
                "Remove it, or name the weights by `hf_id`.",
                at_key=True,
                reads=(hub,),
            )
        if model.weights.fetch != "never" and model.hf_id is None:
            fetch = (*path, "weights", "fetch")
            why = "weights are fetched by their Hugging Face id, and this model has no `hf_id`"
            yield Problem(
                fetch, codes.WEIGHTS, why, "Remove it, or name the weights by `hf_id`.", at_key=True, reads=(hub,)
            )
        yield from repeated((*path, "aliases"), model.aliases, "the alias")
