# SPDX-License-Identifier: BSD-2-Clause
"""Words of machines as facts may quote them: without secrets, and not more than a few lines (R10).

Private to llmgw and pure. Tools print what they like: command lines with keys, their whole environment, megabytes.
"""

from __future__ import annotations

import re

LONGEST = 1000
# Whether there may be anything to hide, at a fraction of what looking for it costs.
_SUSPECT = re.compile(
    r"token|secret|passw|credential|key|authorization|bearer|://|hf_|gh[pousr]_|glpat-|nvapi-|sk-|akia|eyj",
    re.IGNORECASE,
)


def quoted(text: str, longest: int = LONGEST) -> str:
    """The text with asterisks over what looks like a secret, cut where it is too long."""
    if _SUSPECT.search(text) is not None:
        from ansible_collections.llmgw.fleet.plugins.module_utils.capture import secret_words  # noqa: PLC0415 - rare

        # What a cut leaves of a secret would not look like one: first the asterisks, of a bounded piece.
        text = secret_words.masked_text(text[: 4 * longest])
    return text if len(text) <= longest else f"{text[:longest]}..."
