# SPDX-License-Identifier: BSD-2-Clause
"""Why a start failed, in one sentence: the error that the log names and what to do first, and what was seen (R5).

Private to llmgw and pure.
"""

from __future__ import annotations

from typing import Optional

from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.complaints import complaint
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.group import FOR_ALL, waited_for
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.progress import progress


def why(engine: Optional[str], happened: str, log: str) -> str:
    """The sentence, without its full stop. `happened`: how the start ended, as systemd and the waiting tell it.

    For whom a member of a group waits is told too, and is all that is known where no start before it names an error; a
    log that names none still tells how far the engine came.
    """
    named = complaint(engine, log)
    waits = waited_for(log)
    if waits is not None and (named is None or waits != FOR_ALL):
        happened = f"{happened}; {waits}"
    if named is None and waits is None:
        came = progress(engine, log)
        return happened if came is None else f"{happened}; its log tells: {came.words}"
    if named is None:
        return happened
    if not named.remedy:
        return f"{happened}; {named.says}"
    return f"{named.says} ({happened}). {named.remedy.rstrip('.')}"
