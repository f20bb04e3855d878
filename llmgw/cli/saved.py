# SPDX-License-Identifier: Apache-2.0
"""Writes a plan to a file, to be reviewed and then applied as it is (R9)."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

from llmgw.apply.saved import SavedOptions, saved_text
from llmgw.apply.who import whoami
from llmgw.cli.style import printable
from llmgw.errors import LlmgwError
from llmgw.fleet.store import write_atomically
from llmgw.model.plan import Plan, PlanInputs


def save(path: Path, plan: Plan, inputs: PlanInputs, options: SavedOptions) -> None:
    """Writes the plan, made from these inputs with these options, to a file for `llmgw apply FILE`, and
    says so on stderr.

    Raises LlmgwError `saved-plan-unwritable`.
    """
    text = saved_text(replace(plan, inputs=inputs), options, whoami(), time.time())
    try:
        if path.exists() and not path.is_file():
            why = "the plan cannot be saved: this is no regular file"
            raise LlmgwError("saved-plan-unwritable", why, where=str(path), fix="name a file that may be replaced")
        write_atomically(path, text)
    except OSError as error:
        why = f"the plan cannot be saved: {(error.strerror or type(error).__name__).lower()}"
        fix = "name a file in a directory that is there and that you may write to"
        raise LlmgwError("saved-plan-unwritable", why, where=str(path), fix=fix) from error
    print(printable(f"saved to {path}; `llmgw apply {path}` carries it out"), file=sys.stderr)
