# SPDX-License-Identifier: Apache-2.0
"""The error that every layer raises for what a user can mend: what is wrong, where, why, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a file: `path:line:column` (line and column from 1; absent when the place is the whole file)."""

    path: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        parts = [self.path]
        if self.line is not None:
            parts.append(str(self.line))
            if self.column is not None:
                parts.append(str(self.column))
        return ":".join(parts)


class LlmgwError(Exception):
    """Something a user can mend. `code` is stable and documented; `fix` is a sentence that says what to do."""

    def __init__(self, code: str, why: str, *, where: Where | str | None = None, fix: str | None = None) -> None:
        super().__init__(why)
        self.code = code
        self.why = why
        self.where = Where(where) if isinstance(where, str) else where
        self.fix = fix

    def __str__(self) -> str:
        head = f"{self.where}: " if self.where else ""
        tail = f"\n    fix: {self.fix}" if self.fix else ""
        return f"{head}{self.why} [{self.code}]{tail}"


class LlmgwErrors(LlmgwError):  # noqa: N818 - several of them
    """Several errors found in one reading, reported together; `errors` is in the order of files and lines."""

    def __init__(self, errors: Iterable[LlmgwError]) -> None:
        self.errors = tuple(errors)
        first = self.errors[0]
        super().__init__(first.code, first.why, where=first.where, fix=first.fix)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)
