# SPDX-License-Identifier: Apache-2.0
"""A what-if answer as JSON values: the same that the text says, for programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from llmgw.model.plan import Plan
from llmgw.plan.codec import plan_document
from llmgw.whatif.difference import Difference
from llmgw.whatif.said import Said
from llmgw.whatif.smallest import Smallest

WHATIF_FORMAT = 1


def whatif_document(
    said: Iterable[Said], plan: Plan, difference: Difference, smallest: Smallest | None = None
) -> dict[str, Any]:
    """What was supposed, the plan that follows, what differs from the present one, and the smallest number if asked.

    The plan is not one to carry out: it stands in `plan`, where nothing that reads plans looks for it.
    """
    return {
        "format_version": WHATIF_FORMAT,
        "supposed": [asdict(one) for one in said],
        "smallest": None if smallest is None else asdict(smallest),
        "plan": plan_document(plan),
        "difference": asdict(difference),
    }
