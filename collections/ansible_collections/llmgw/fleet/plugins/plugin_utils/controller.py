# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The way from action plugins to the llmgw package, which must be installed where Ansible runs (R3)."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager


@contextmanager
def controller(result):
    """The module llmgw.apply.actions, or None with `result` failed and saying why. What llmgw refuses ends up there too."""
    try:
        from llmgw.apply import actions
        from llmgw.errors import LlmgwError
    except ImportError as error:
        result["failed"] = True
        result["msg"] = (
            f"llmgw cannot be imported by the Python that runs Ansible ({sys.executable}): {error}. "
            "Install it there: pip install llmgw"
        )
        yield None
        return
    try:
        yield actions
    except LlmgwError as error:
        result["failed"] = True
        result["msg"] = str(error)
        result["llmgw_error"] = error.code


def plain(value):
    """The value as ordinary JSON types; values of Ansible's own types lose their tags."""
    return json.loads(json.dumps(value, default=str))
