# SPDX-License-Identifier: Apache-2.0
"""Durations as people write them (`90`, `90s`, `5m`, `1h30m`, `500ms`), read into seconds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from llmgw.catalog import codes
from llmgw.catalog.schema.base import Expects, refuse

DAY = 86_400
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": DAY}
_PATTERN = r"^([0-9]{1,15}(\.[0-9]{1,15})?(ms|s|m|h|d))+$"
_PIECE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_LONGEST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Duration:
    """Metadata of an int (`whole`) or float field that takes durations from `least` seconds to a day."""

    least: float
    whole: bool

    def __get_pydantic_core_schema__(self, _source: object, _handler: GetCoreSchemaHandler) -> CoreSchema:
        """The conversion alone: it leaves nothing for pydantic to check."""
        return core_schema.no_info_plain_validator_function(self.seconds)

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """A number of seconds, or a text with units."""
        number = {"type": "integer" if self.whole else "number", "minimum": self.least, "maximum": DAY}
        return {"anyOf": [number, {"type": "string", "pattern": _PATTERN}]}

    def seconds(self, value: object) -> int | float:
        """The seconds of a YAML value. Raises PydanticCustomError."""
        seconds = _read(value)
        if not self.least <= seconds <= DAY:
            words = f"a duration here is from {shown(self.least)} to {shown(DAY)}, not {shown(seconds)}"
            raise refuse(codes.VALUE, words, f"Write one of at least {shown(self.least)}, such as `90s`, `5m` or `1h`.")
        if not self.whole:
            return float(seconds)
        if not float(seconds).is_integer():
            raise refuse(codes.VALUE, "this is not a whole number of seconds", "Round it to whole seconds.")
        return int(seconds)


def shown(seconds: float) -> str:
    """The shortest text of a duration: `90s`, `5m`, `1d`."""
    for unit in ("d", "h", "m"):
        if seconds >= _UNITS[unit] and seconds % _UNITS[unit] == 0:
            return f"{seconds / _UNITS[unit]:g}{unit}"
    return f"{seconds:g}s"


def _read(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        raise refuse(codes.TYPE, "a duration is a number or a text such as `5m`", "Write `90`, `90s`, `5m` or `1h`.")
    if not re.fullmatch(_PATTERN, value):
        text = value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "..."
        raise refuse(codes.VALUE, f"`{text}` is no duration", "Write seconds (`90`), or `90s`, `5m`, `1h30m`, `500ms`.")
    return sum(float(number) * _UNITS[unit] for number, unit in _PIECE.findall(value))


_WORDS = "a duration"
Seconds = Annotated[int, Duration(least=0, whole=True), Expects(_WORDS)]
PositiveSeconds = Annotated[int, Duration(least=1, whole=True), Expects(_WORDS)]
Interval = Annotated[float, Duration(least=0.05, whole=False), Expects(_WORDS)]
