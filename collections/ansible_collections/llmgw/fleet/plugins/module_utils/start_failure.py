# SPDX-License-Identifier: BSD-2-Clause
"""Why a start failed, in one sentence: the error that the log names and what to do first, and what was seen (R5).

Private to llmgw and pure.
"""

from __future__ import annotations

from typing import Optional

from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.complaints import UNNAMED, complaint
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.group import waited_for
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.known_complaints import GROUP_ENDED
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.progress import progress

# What an earlier start said, and the guard that waits now may know better.
_LESS_THAN_WAITING = (UNNAMED, GROUP_ENDED.code)


def why(engine: Optional[str], happened: str, log: str) -> str:
    """The sentence, without its full stop. `happened`: how the start ended, as systemd and the waiting tell it.

    A log that names no error still tells for whom a member of a group waited, or how far the engine came.
    """
    named = complaint(engine, log)
    waits = waited_for(log)
    if waits is not None and (named is None or named.code in _LESS_THAN_WAITING):
        return f"{happened}; {waits}"
    if named is None:
        came = progress(engine, log)
        return happened if came is None else f"{happened}; its log tells: {came.words}"
    if not named.remedy:
        return f"{happened}; {named.says}"
    return f"{named.says} ({happened}). {named.remedy.rstrip('.')}"
