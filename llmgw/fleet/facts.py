# SPDX-License-Identifier: Apache-2.0
"""Node facts read from JSON values, of this module's version or another (D15)."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import TypeAdapter, ValidationError

from llmgw.errors import LlmgwError
from llmgw.nodekit import contract

_FACTS = TypeAdapter(contract.NodeFacts)
_DIGITS = 18
_BEYOND = 1e18
_ODD_NUMBER = re.compile(r"[ \[](?:-?[0-9]{19}|-?Infinity|NaN|-?[0-9.]+e\+)")
_FIX = "run `llmgw facts refresh`: it reads the node again; until then the last good facts are used"


def parse_facts(document: Any) -> contract.NodeFacts:
    """The facts in a JSON document. Unknown keys of a newer module are ignored, missing ones are unknown (D15).

    Raises LlmgwError `facts-broken`; also for JSON that no discovery has written, in which everything would seem
    unknown.
    """
    if not isinstance(document, dict) or "contract_version" not in document:
        raise LlmgwError("facts-broken", "this is JSON, but no facts of a node: it has no contract_version", fix=_FIX)
    try:
        return _FACTS.validate_python(_as_text(document))
    except RecursionError as error:
        raise LlmgwError("facts-broken", "the facts are nested too deep", fix=_FIX) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the top"
        raise LlmgwError("facts-broken", f"the facts are wrong at {place}: {first['msg']}", fix=_FIX) from error
    except ValueError as error:
        raise LlmgwError("facts-broken", f"the facts are no JSON: {error}", fix=_FIX) from error


def _as_text(document: dict[str, Any]) -> Any:
    """The document with `?` for halves of characters, which JSON can write and no file, terminal or bundle can hold,
    and without numbers that nothing can have: NaN, the infinities, what needs more than 64 bits.

    A node may name files in any bytes, and its tools may print anything; that must not cost the fleet a plan.
    """
    text = json.dumps(document, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "replace").decode()
    else:
        if not _ODD_NUMBER.search(text):
            return document
    return json.loads(text, parse_int=_integer, parse_float=_decimal, parse_constant=_no_number)


def _integer(digits: str) -> int | None:
    return int(digits) if len(digits) <= _DIGITS else None


def _decimal(text: str) -> float | None:
    number = float(text)
    return number if abs(number) < _BEYOND else None


def _no_number(_name: str) -> None:
    """What stands for NaN and the infinities."""
