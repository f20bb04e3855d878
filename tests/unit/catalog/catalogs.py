# SPDX-License-Identifier: Apache-2.0
"""Short ways to compile a text, and the text that the tests change."""

from __future__ import annotations

from llmgw.catalog.compile import File, compile_catalog
from llmgw.errors import LlmgwError, LlmgwErrors
from llmgw.model.replica import Catalog, ProfileSpec, ServiceSpec

HEAD = """\
version: 1
models:
  small: {path: m.gguf}
"""
ON_CPU = f"""\
{HEAD}
profiles:
  small: {{engine: sim, model: small}}
"""


def catalog(text: str, *parts: str, overlays: tuple[str, ...] = ()) -> Catalog:
    """The catalog of a main file, parts and overlays."""
    files = [File("catalog.yaml", text.encode())]
    files += [File(f"catalog.d/{number}.yaml", part.encode()) for number, part in enumerate(parts)]
    above = [File(f"overlay{number}.yaml", part.encode()) for number, part in enumerate(overlays)]
    return compile_catalog(files, above).catalog


def mistakes(text: str, *parts: str, overlays: tuple[str, ...] = ()) -> tuple[LlmgwError, ...]:
    """The errors of what `catalog` takes."""
    try:
        catalog(text, *parts, overlays=overlays)
    except LlmgwErrors as errors:
        return errors.errors
    return ()


def service(text: str) -> ServiceSpec:
    """The one service of a catalog on CPU, given what is below its name in flow style."""
    (only,) = catalog(f"{ON_CPU}services:\n  chat: {{profiles: small, {text}}}\n").services
    return only


def profile(text: str) -> ProfileSpec:
    """The one profile of a catalog, given what is below its name in flow style besides engine and model."""
    (only,) = catalog(
        f"{HEAD}profiles:\n  p: {{engine: vllm, model: small, {text}}}\nservices:\n  chat: {{profiles: p}}\n"
    ).services
    return only.profiles[0]
