# SPDX-License-Identifier: Apache-2.0
"""What every part of the catalog's schema shares: strictness, and marks on fields that errors and docs read."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError


class Entry(BaseModel):
    """A mapping of the catalog: frozen, without unknown keys, without conversions between types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_an_empty_mapping(cls, value: object) -> object:
        return {} if value is None else value


@dataclass(frozen=True, slots=True)
class Expects:
    """Words for what a field takes, for errors and docs. `hidden`: no message may repeat the value (R10)."""

    words: str
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Later:
    """Marks a field that this version reads but cannot act on: any value but the default is refused for this reason."""

    why: str


def refuse(code: str, why: str, fix: str) -> PydanticCustomError:
    """Finished sentences as the error of a validator; braces in them are kept."""
    return PydanticCustomError(code, "{why}", {"why": why, "fix": fix})
