# SPDX-License-Identifier: Apache-2.0
"""The engines this version can start, by kind. A new engine is one file and one line here."""

from __future__ import annotations

from llmgw.engines.base import Engine
from llmgw.engines.llamacpp import LlamaCpp
from llmgw.engines.sglang import SGLang
from llmgw.engines.sim import Simulator
from llmgw.engines.vllm import Vllm
from llmgw.model.replica import ProfileSpec

_ENGINES: dict[str, Engine] = {engine.traits.kind: engine for engine in (LlamaCpp(), SGLang(), Simulator(), Vllm())}


def engine_of(kind: str) -> Engine | None:
    """The engine of that kind, or None when this version cannot start it."""
    return _ENGINES.get(kind)


def api_key_secret(profile: ProfileSpec) -> str | None:
    """The secret that clients of the profile's engine must bring as their key; None when it asks for none."""
    engine = engine_of(profile.engine)
    variable = engine.traits.api_key_variable if engine else None
    return profile.secrets.get(variable) if variable else None


def refusal(profile: ProfileSpec) -> str | None:
    """Why no node can serve the profile, as a sentence; None when its engine can."""
    engine = engine_of(profile.engine)
    if engine is None:
        known = ", ".join(sorted(_ENGINES))
        return f"this version of llmgw cannot start {profile.engine} (it starts {known})"
    return engine.refusal(profile)
