# SPDX-License-Identifier: Apache-2.0
"""Node facts read from JSON, of this module's version or another (D15)."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import msgspec
from pydantic import TypeAdapter, ValidationError

from llmgw.errors import LlmgwError
from llmgw.nodekit import contract

_DIGITS = 18
_BEYOND = 1e18
_ODD_NUMBER = re.compile(r"[ \[](?:-?[0-9]{19}|-?Infinity|NaN|-?[0-9.]+e\+)")
_AS_WRITTEN = bytes.maketrans(b"123456789E", b"000000000e")
_MAY_BE_TOO_LARGE = (b"0" * _DIGITS, b"0e0", b"0e+0")
_FIX = "run `llmgw facts refresh`: it reads the node again; until then the last good facts are used"


class _Versioned(msgspec.Struct):
    """The one key without which JSON is no facts."""

    contract_version: msgspec.Raw


def read_facts(data: bytes) -> contract.NodeFacts:
    """The facts in JSON text, the same as `parse_facts` of what it says; most files take a tenth of the time.

    Raises LlmgwError `facts-broken`.
    """
    if data.isascii() and not _may_have_odd_numbers(data):
        try:
            _versioned().decode(data)
            return _strict().decode(data)
        except (msgspec.MsgspecError, RecursionError):
            pass  # what is not of the contract's very types may still mean something: the other way tells, or says why
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise LlmgwError("facts-broken", f"the facts are not whole JSON: {error}", fix=_FIX) from error
    return parse_facts(document)


def parse_facts(document: Any) -> contract.NodeFacts:
    """The facts in a JSON document. Unknown keys of a newer module are ignored, missing ones are unknown (D15).

    Raises LlmgwError `facts-broken`; also for JSON that no discovery has written, in which everything would seem
    unknown.
    """
    if not isinstance(document, dict) or "contract_version" not in document:
        raise LlmgwError("facts-broken", "this is JSON, but no facts of a node: it has no contract_version", fix=_FIX)
    try:
        return _lenient().validate_python(_as_text(document))
    except RecursionError as error:
        raise LlmgwError("facts-broken", "the facts are nested too deep", fix=_FIX) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the top"
        raise LlmgwError("facts-broken", f"the facts are wrong at {place}: {first['msg']}", fix=_FIX) from error
    except ValueError as error:
        raise LlmgwError("facts-broken", f"the facts are no JSON: {error}", fix=_FIX) from error


@cache
def _lenient() -> TypeAdapter[contract.NodeFacts]:
    return TypeAdapter(contract.NodeFacts)


@cache
def _strict() -> msgspec.json.Decoder[contract.NodeFacts]:
    return msgspec.json.Decoder(contract.NodeFacts)


@cache
def _versioned() -> msgspec.json.Decoder[_Versioned]:
    return msgspec.json.Decoder(_Versioned)


def _may_have_odd_numbers(data: bytes) -> bool:
    """Whether JSON text may hold a number that `_as_text` takes out: 18 digits, or an exponent that is not negative.

    Everything between quotes is left out first: digests and GUIDs look like such numbers.
    """
    if b'\\"' in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(data.translate(None, b" \n").split(b'"')[::2]).translate(_AS_WRITTEN)
    return any(number in outside for number in _MAY_BE_TOO_LARGE)


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
