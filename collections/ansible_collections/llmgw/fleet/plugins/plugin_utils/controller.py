# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The way from action plugins to the llmgw package, which must be installed where Ansible runs (R3)."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def controller(result: dict[str, Any], module: str) -> Iterator[Any]:
    """The module `llmgw.apply.MODULE`, or None with `result` failed and saying why.

    What llmgw refuses while the context lasts ends up in `result` too.
    """
    try:
        actions = importlib.import_module(f"llmgw.apply.{module}")
        refused = importlib.import_module("llmgw.errors").LlmgwError
    except ImportError as error:
        result["failed"] = True
        result["msg"] = (
            f"llmgw cannot be imported by the Python that runs Ansible ({sys.executable}): {error}. "
            "Install the package llmgw there: it brings this collection along."
        )
        yield None
        return
    try:
        yield actions
    except refused as error:
        result["failed"] = True
        result["msg"] = str(error)
        result["llmgw_error"] = error.code


def plain(value: object) -> Any:
    """The value as ordinary JSON types; values of Ansible's own types lose their tags."""
    return json.loads(json.dumps(value, default=str))
