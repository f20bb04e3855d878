# SPDX-License-Identifier: Apache-2.0
"""Says that facts are looked at as of another moment than now, so that nobody takes them for the fleet of today."""

from __future__ import annotations

import sys
from pathlib import Path

from llmgw.apply.moment import NAME, in_words, kept_at
from llmgw.cli.style import printable


def tell(facts: Path) -> None:
    """Says on stderr which moment facts are kept for; nothing where they are those of now. Raises LlmgwError
    `facts-moment`.
    """
    kept = kept_at(facts)
    if kept is not None:
        print(printable(f"facts as of {in_words(kept)}, as {facts / NAME} says"), file=sys.stderr)
