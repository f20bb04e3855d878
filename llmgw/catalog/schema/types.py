# SPDX-License-Identifier: Apache-2.0
"""Types of catalog fields: names, texts, numbers and addresses, each with the words that describe it."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from llmgw.catalog import codes
from llmgw.catalog.scalars import written
from llmgw.catalog.schema.base import Expects, refuse
from llmgw.model.replica import GATEWAYS

K = TypeVar("K")
V = TypeVar("V")

# --- names ------------------------------------------------------------------------------------------------------------


def _without_steps_up(value: str) -> str:
    if ".." in value.split("/"):
        why = "a step up (`..`) in a path may mean another place on each node"
        raise refuse(codes.VALUE, why, "Write the path without it.")
    return value


_DEVICE_CLASS = r"^(cpu|[a-z0-9][a-z0-9.-]{0,59}-([0-9]{1,5}g|unified)(-mig-[a-z0-9.+-]{1,40})?)$"


def _one_class(value: object) -> object:
    """Several classes in one text: somebody wants a replica of mixed devices, or a list (C5)."""
    # `+` is part of some classes: a100-80g-mig-1g.10gb+me.
    for between in (r"[\s,;&|]+", r"[\s,;&|+]+"):
        parts = re.split(between, value.strip()) if isinstance(value, str) else []
        if len(parts) > 1 and all(re.search(_DEVICE_CLASS, part) for part in parts):
            why = f"`{value}` names {len(parts)} classes, and the devices of a replica are all of one"
            fix = f"List those that will do, the preferred first: [{', '.join(parts)}]."
            raise refuse(codes.DEVICES, why, fix)
    return value


_NAME_WORDS = "a name of letters, digits, `.`, `_` and `-`, beginning with a letter or digit, at most 80 characters"
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$"), Expects(_NAME_WORDS)]
ServiceKey = Annotated[
    str,
    Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$"),
    Expects("a name of lower-case letters, digits and `-`, beginning with a letter or digit, at most 41 characters"),
]
ServedName = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$"),
    Expects("a model name of letters, digits and `._:/@+-`, at most 200 characters"),
]
DeviceClassName = Annotated[
    str,
    Field(pattern=_DEVICE_CLASS),
    BeforeValidator(_one_class),
    Expects("`cpu` or a device class (product and memory, such as `h200-141g` or `a100-80g-mig-3g.40gb`)"),
]
LabelKey = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$"),
    Expects("a label's name of letters, digits, `.`, `_`, `/` and `-`, at most 63 characters"),
]
VariableName = Annotated[
    str,
    Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"),
    Expects("a variable's name of letters, digits and `_`, not beginning with a digit"),
]
SecretName = Annotated[
    str,
    Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,59}$"),
    Expects("the name of a secret: lower-case letters, digits, `.`, `_` and `-`, at most 60 characters", hidden=True),
]
HubId = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?$"),
    Expects("a Hugging Face id, such as `Qwen/Qwen3-32B`"),
]
Word = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$"),
    Expects("one word of letters, digits, `.`, `_`, `/` and `-`"),
]
WeightsPath = Annotated[
    str,
    Field(pattern=r"^[^\x00-\x1f\x7f{}~ ][^\x00-\x1f\x7f{}]{0,4094}$"),
    AfterValidator(_without_steps_up),
    Expects("a path; variables, `~` and templates are not expanded"),
]
AbsolutePath = Annotated[
    str,
    Field(pattern=r"^/[^\x00-\x1f\x7f{}]{0,4094}$"),
    Expects("an absolute path, beginning with `/`; variables, `~` and templates are not expanded"),
]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$"), Expects("a SHA-256 in 64 lower-case hex digits", hidden=True)]

# --- texts that are handed on as they were written --------------------------------------------------------------------


def _as_written(value: object) -> object:
    if isinstance(value, bool):
        word = "true" if value else "false"
        why = f"the truth value {word} has no one spelling as text"
        raise refuse(codes.TYPE, why, f'Put the text that is meant in quotes, such as "{word}" or "{int(value)}".')
    number = written(value)
    return value if number is None else number


def _without_control_characters(value: str) -> str:
    if any((character < " " and character not in "\t\n") or character == "\x7f" for character in value):
        raise refuse(codes.VALUE, "control characters cannot be handed to a process", "Remove them.")
    return value


_TEXT_INPUT: Any = Annotated[str, Field(pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$")] | int | float
Text = Annotated[
    str,
    BeforeValidator(_as_written, json_schema_input_type=_TEXT_INPUT),
    AfterValidator(_without_control_characters),
    Expects("text, or a number, handed on as written", hidden=True),
]

# --- numbers ---------------------------------------------------------------------------------------------------------

Gigabytes = Annotated[float, Field(gt=0, le=1_000_000), Expects("a number of GB (10^9 bytes)")]
Count = Annotated[int, Field(ge=1, le=1_000_000), Expects("a whole number, at least 1")]

# --- addresses --------------------------------------------------------------------------------------------------------


def _sound_network(value: str) -> str:
    if value != GATEWAYS:
        try:
            ipaddress.ip_network(value)
        except ValueError as error:
            fix = "Write one such as `10.0.0.0/8`, `fd00::/8` or `10.0.0.7`, or the word `gateways`."
            raise refuse(codes.VALUE, f"`{value}` is no network ({error})", fix) from None
    return value


Network = Annotated[
    str,
    Field(pattern=r"^(gateways|[0-9A-Fa-f:.]{2,45}(/[0-9]{1,3})?)$"),
    AfterValidator(_sound_network),
    Expects("a network such as `10.0.0.0/8`, or the word `gateways`"),
]
_LISTEN = r"^(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?):[0-9]{1,5}$"
_MAX_PORT = 65_535


def _sound_address(value: str) -> str:
    host, _, port = value.rpartition(":")
    if not 1 <= int(port) <= _MAX_PORT:
        raise refuse(codes.VALUE, f"{port} is no port", f"Use a port from 1 to {_MAX_PORT}.")
    if host.startswith("[") or host.replace(".", "").isdecimal():
        try:
            ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            why, fix = f"`{host}` is no IP address", "Write one such as `0.0.0.0` or `[::]`, or a host's name."
            raise refuse(codes.VALUE, why, fix) from None
    return value


Listener = Annotated[
    str,
    Field(pattern=_LISTEN),
    AfterValidator(_sound_address),
    Expects("an address and a port, such as `0.0.0.0:8080` or `[::]:8080`"),
]
PortRange = Annotated[
    str, Field(pattern=r"^[0-9]{1,5}-[0-9]{1,5}$"), Expects("first and last port, such as `18000-18999`")
]

# --- lists and mappings -----------------------------------------------------------------------------------------------


class Listed:
    """Metadata of a tuple field: YAML lists are taken, and with `single` also one value in place of a list of one."""

    def __init__(self, *, single: bool) -> None:
        self.single = single

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The tuple's schema behind the conversion."""
        return core_schema.no_info_before_validator_function(self._tuple, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """An array, or with `single` also what it is an array of."""
        array = handler(schema)
        return {"anyOf": [array["items"], array]} if self.single else array

    def _tuple(self, value: object) -> object:
        if isinstance(value, list):
            return tuple(value)
        return (value,) if self.single and isinstance(value, str | int | float) else value


OneOrMany: TypeAlias = Annotated[tuple[V, ...], Listed(single=True)]
Many: TypeAlias = Annotated[tuple[V, ...], Listed(single=False)]


def _nothing_is_empty(value: object) -> object:
    return {} if value is None else value


Table: TypeAlias = Annotated[dict[K, V], BeforeValidator(_nothing_is_empty)]
Engine = Literal["vllm", "sglang", "llama.cpp", "sim"]
SlowPath = Literal["quantization", "kv_cache_dtype"]
