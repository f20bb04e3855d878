# SPDX-License-Identifier: Apache-2.0
"""Catalogs for `bench-plan`: as many services and replicas as asked for, of every shape, some of which fit nowhere."""

from __future__ import annotations

import json
from typing import Any

from tests.bench.plan_fleet import MODELS

_TURN = "tp1 tp2 tp1 tp4 tp2 tp1 cpu tp2 tp1 tp8 tp4 tp1 two-nodes tp2 tp1 mig tp4 tp1 tp2 tp1"
SHAPES = tuple(_TURN.split(" "))
"""In turn, one a service."""
WEIGHTS = {"tp1": 1.3, "tp2": 1.2, "tp4": 0.8, "tp8": 0.4, "two-nodes": 0.2, "cpu": 1.0, "mig": 0.5}
"""How many replicas a service of the shape has beside others."""
CLASSES = {
    1: ("h100", "l40s", "h200", "h100", "l40s", "h100", "a100"),
    2: ("h100", "h200", "l40s", "h100", "h100", "l40s"),
    4: ("h100", "h200", "h100", "gb200", "h100"),
    8: ("h100", "h200", "h100"),
}
"""Classes that services of so many cards ask for, in turn."""
NAMES = {
    "h100": ["h100-80g", "h200-141g"],
    "h200": ["h200-141g"],
    "l40s": ["l40s-45g"],
    "a100": ["a100-80g"],
    "gb200": ["gb200-186g"],
}
NOWHERE = ({"devices": "b300-288g"}, {"node_selector": {"pool": "research"}}, {"min_memory_gb": 5000})
"""What makes a profile fit nowhere: a class that no node has, a label, more memory than any node has."""


def service_count(replicas: int) -> int:
    """20 to 200 services, about seven replicas each while there are few."""
    return max(20, min(200, replicas // 7))


def catalog_text(replicas: int, engine: str) -> str:
    """The catalog as YAML, which JSON is. An engine that runs on one node leaves out what needs several."""
    count = service_count(replicas)
    shapes = [SHAPES[number % len(SHAPES)] for number in range(count)]
    if engine == "sim":
        shapes = ["tp4" if shape == "two-nodes" else shape for shape in shapes]
    share = replicas / sum(WEIGHTS[shape] for shape in shapes)
    amounts = [max(1, int(share * WEIGHTS[shape])) for shape in shapes]
    amounts[0] += replicas - sum(amounts)
    profiles: dict[str, Any] = {}
    services: dict[str, Any] = {}
    for number, shape in enumerate(shapes):
        names = [f"s{number}"]
        profiles[names[0]] = _profile(number, shape, engine)
        if number >= count - len(NOWHERE):
            profiles[names[0]] |= NOWHERE[count - 1 - number]
        if number % 5 == 4 and shape in ("tp1", "tp2"):
            names.append(f"s{number}-second")
            profiles[names[1]] = profiles[names[0]] | {"devices": NAMES["l40s" if number % 2 else "h100"]}
        services[f"s{number}"] = _service(number, names, amounts[number])
    models = {f"m{number}": {"hf_id": f"org/model-{number}"} for number in range(MODELS)}
    document = {"version": 1, "models": models, "profiles": profiles, "services": services}
    return json.dumps(document, indent=1) + "\n"


def unplaceable(replicas: int) -> str:
    """A service that fits nowhere: what is asked for its reasons."""
    return f"s{service_count(replicas) - 2}"


def _profile(number: int, shape: str, engine: str) -> dict[str, Any]:
    profile: dict[str, Any] = {"engine": engine, "model": f"m{number % MODELS}", "max_model_len": 32768}
    if shape == "cpu":
        profile |= {"devices": "cpu", "min_memory_gb": 24, "engine": "sim"}
    elif shape == "mig":
        profile |= {"devices": "a100-80g-mig-3g.40gb"}
    else:
        cards = {"two-nodes": 4}.get(shape) or int(shape[2:])
        classes = CLASSES[cards]
        chosen = "gb200" if shape == "two-nodes" and number % 40 < len(SHAPES) else classes[number // 3 % len(classes)]
        profile |= {"devices": NAMES[chosen], "gpus": cards, "min_memory_gb": 16 * cards}
        profile |= {"tensor_parallel": cards}
        if shape == "two-nodes":
            profile |= {"nodes": 2, "pipeline_parallel": 2}
    if number % 9 == 5:
        profile["node_selector"] = {"pool": "prod"}
    return profile


def _service(number: int, profiles: list[str], replicas: int) -> dict[str, Any]:
    spread = {3: "node", 8: "rack", 15: "pod"}.get(number % 20)
    service: dict[str, Any] = {"profiles": profiles, "replicas": replicas, "priority": number % 3}
    return service | ({"spread": spread} if spread else {})
