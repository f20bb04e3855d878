# SPDX-License-Identifier: Apache-2.0
"""Node facts read from JSON values, of this module's version or another (D15)."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from llmgw.errors import LlmgwError
from llmgw.nodekit import contract

_FACTS = TypeAdapter(contract.NodeFacts)
_FIX = "run `llmgw facts refresh`: it reads the node again; until then the last good facts are used"


def parse_facts(document: Any) -> contract.NodeFacts:
    """The facts in a JSON document. Unknown keys of a newer module are ignored, missing ones are unknown (D15).

    Raises LlmgwError `facts-broken`.
    """
    try:
        return _FACTS.validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the top"
        raise LlmgwError("facts-broken", f"the facts are wrong at {place}: {first['msg']}", fix=_FIX) from error
