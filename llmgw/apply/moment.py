# SPDX-License-Identifier: Apache-2.0
"""Facts that are kept to be looked at: `facts/at` says as of which moment, so that they do not grow old (D18).

Such a fleet can be planned, shown and asked about for ever. It is never applied or refreshed: its hosts are not as
its facts say, or are not there at all.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from llmgw.errors import LlmgwError

NAME = "at"
_SECONDS = re.compile("[0-9]{1,11}")
_LONGEST = 100


def kept_at(facts: Path) -> float | None:
    """The moment as of which the facts are looked at, in Unix seconds; None: they are facts of now.

    Raises LlmgwError `facts-moment` when the file is there and holds no moment.
    """
    path = facts / NAME
    if not path.is_file():
        return None
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_LONGEST).strip()
    except (OSError, ValueError) as error:
        raise _no_moment(path, f"cannot be read: {error}") from error
    if not _SECONDS.fullmatch(text):
        raise _no_moment(path, f"holds no Unix seconds: {text!r}")
    return float(text)


def looked_at(facts: Path, now: float) -> float:
    """The moment at which these facts are looked at: the one that they are kept for, else `now`. Raises LlmgwError
    `facts-moment`.
    """
    kept = kept_at(facts)
    return now if kept is None else kept


def refuse_kept(facts: Path) -> None:
    """Raises LlmgwError `facts-kept` for facts that are kept for one moment: what would change hosts or facts goes no
    further.
    """
    kept = kept_at(facts)
    if kept is not None:
        raise LlmgwError(
            "facts-kept",
            f"these facts are kept as of {in_words(kept)}, to be looked at: nothing is read from hosts or changed on "
            "them",
            where=str(facts / NAME),
            fix="to make a real fleet of it, remove that file and run `llmgw facts refresh`",
        )


def in_words(moment: float) -> str:
    """`2026-11-24 09:00 UTC`."""
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M} UTC"


def _no_moment(path: Path, why: str) -> LlmgwError:
    return LlmgwError(
        "facts-moment",
        f"the moment as of which the facts are looked at {why}",
        where=str(path),
        fix="write Unix seconds (`date +%s`), or remove the file: then the facts are those of now",
    )
