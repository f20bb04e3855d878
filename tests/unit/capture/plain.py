# SPDX-License-Identifier: Apache-2.0
"""Facts as JSON values that two runs can be compared by."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import NodeFacts


def plain(facts: NodeFacts) -> dict[str, Any]:
    """The facts without the seconds that probes took."""
    document: dict[str, Any] = json.loads(json.dumps(asdict(facts)))
    for probe in document["probes"]:
        del probe["seconds"]
    return document
