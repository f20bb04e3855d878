# SPDX-License-Identifier: Apache-2.0
"""Strategies: catalogs that are right, as plain data; and junk to put in the place of parts of them."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

from llmgw.catalog.compile import File, compile_catalog
from llmgw.errors import LlmgwError, LlmgwErrors
from llmgw.model.replica import Catalog

Data = dict[str, Any]

_NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True).filter(lambda name: not name.startswith("x-"))
_TEXTS = st.text(st.characters(exclude_categories=["C"]), max_size=8)
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    _TEXTS,
    st.sampled_from(
        ["yes", "cpu", "90s", "h200-141g", "18000-18999", "{{ x }}", "", "/", "~", "..", "a1" * 32, "\x07", "\0"]
    ),
)
_KEYS = st.one_of(
    _TEXTS,
    st.sampled_from(
        ["models", "profiles", "services", "gateway", "fleet", "version", "keys", "args", "env", "replicas", "<<", "tp"]
    ),
)
JUNK = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3), max_leaves=8
)

_DURATIONS = st.integers(1, 600) | st.sampled_from(["90s", "5m", "1h30m"])
_CLASSES = st.sampled_from(["h200-141g", "h100-80g", "l40s-45g"])


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Data]:
    return st.fixed_dictionaries({}, optional=fields)


_MODELS = _some(revision=st.just("main")).map(lambda more: {"hf_id": "org/model", **more}) | st.just({"path": "m.gguf"})
_SHAPES = st.one_of(
    st.just({}),
    st.just({"devices": "cpu"}),
    st.builds(lambda one, n: {"devices": one, "gpus": n}, _CLASSES, st.integers(1, 8)),
    st.builds(
        lambda two, t, p: {"devices": two, "tensor_parallel": t, "pipeline_parallel": p},
        st.lists(_CLASSES, min_size=1, max_size=3, unique=True),
        st.integers(1, 4),
        st.integers(1, 4),
    ),
    st.just({"devices": "a100-80g-mig-3g.40gb"}),
)
_PROFILES = st.builds(
    lambda shape, more: shape | more,
    _SHAPES,
    _some(
        engine=st.sampled_from(["vllm", "sglang", "llama.cpp", "sim"]),
        min_memory_gb=st.integers(1, 64),
        args=st.lists(st.sampled_from(["--a", "b", 7, 0.5]), max_size=3),
        env=st.dictionaries(st.sampled_from(["A", "B", "C"]), st.integers() | st.just("x"), max_size=3),
        node_selector=st.dictionaries(st.sampled_from(["rack", "zone"]), st.just("r1"), max_size=2),
        ready_timeout=_DURATIONS,
    ),
)
_SERVICES = _some(
    replicas=st.integers(0, 5),
    spread=st.sampled_from(["node", "rack"]),
    priority=st.integers(-5, 5),
    drain_timeout=_DURATIONS,
    rollout=_some(max_unavailable=st.integers(1, 3)),
    admission=_some(max_concurrency=st.integers(1, 9))
    | st.just({"max_concurrency": 4, "max_queue": 9, "queue_timeout": "5s"}).map(dict),
    routing=_some(policy=st.sampled_from(["random", "round-robin"])),
)


@st.composite
def documents(draw: st.DrawFn) -> Data:
    """The plain data of a catalog without mistakes, with at least one service."""
    # Copies: what `just` returns is one object for all examples, and tests change what they are given.
    models = copy.deepcopy(draw(st.dictionaries(_NAMES, _MODELS, min_size=1, max_size=3)))
    profiles = copy.deepcopy(draw(st.dictionaries(_NAMES, _PROFILES, min_size=1, max_size=3)))
    services = draw(st.dictionaries(_NAMES, _SERVICES, min_size=1, max_size=3))
    for profile in profiles.values():
        profile.setdefault("engine", "sim")
        alone = profile["engine"] in ("sim", "llama.cpp") and profile.get("pipeline_parallel", 1) > 1
        if alone or (profile["engine"] == "sglang" and profile.get("devices", "cpu") == "cpu"):
            profile["engine"] = "vllm"
        profile["model"] = draw(st.sampled_from(sorted(models)))
    names = list(services)
    for number, service in enumerate(services.values()):
        service["profiles"] = draw(st.lists(st.sampled_from(sorted(profiles)), min_size=1, max_size=3, unique=True))
        # An upper-case letter keeps them apart from the names of services.
        service["aliases"] = [f"A{number}.{each}" for each in range(draw(st.integers(0, 2)))]
        later = sorted(services)[sorted(services).index(names[number]) + 1 :]
        if draw(st.booleans()) and later:
            service["routing"] = {
                "fallbacks": later,
                "split": {"service": later[0], "percent": draw(st.integers(0, 100))},
            }
    keys = {
        f"k{number}": {"sha256": f"{number:064x}", "services": sorted(services)[:1]}
        for number in range(draw(st.integers(0, 2)))
    }
    settings = draw(_some(fleet=_some(lost_after=_DURATIONS), gateway=_some(probe_interval=_DURATIONS)))
    document = {"version": 1, "models": models, "profiles": profiles, "services": services, **settings}
    if keys:
        document["gateway"] = settings.get("gateway", {}) | {"keys": keys}
    return document


def yaml(data: object) -> bytes:
    """The data as YAML in flow style, which JSON is."""
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass")


def compiled(*contents: bytes) -> Catalog | tuple[LlmgwError, ...]:
    """The catalog of files `0.yaml`, `1.yaml`, ... or its errors."""
    try:
        return compile_catalog([File(f"{number}.yaml", content) for number, content in enumerate(contents)]).catalog
    except LlmgwErrors as errors:
        return errors.errors
