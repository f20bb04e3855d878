# SPDX-License-Identifier: Apache-2.0
"""The answer to `plan --why` as JSON, for tools and the console (Q6, P11)."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from llmgw.model.why import Why

WHY_FORMAT = 1
_WHY = TypeAdapter(Why)


def why_document(why: Why) -> dict[str, Any]:
    """The whole answer as JSON values. Nodes say `fits` beside what fails, so that no reader has to know why."""
    document: dict[str, Any] = {"format_version": WHY_FORMAT, **_WHY.dump_python(why, mode="json")}
    for entry, node in zip(document["nodes"], why.nodes, strict=True):
        entry["fits"] = node.fits
    return document
