# SPDX-License-Identifier: BSD-2-Clause
"""Whether a bundle that lies on a gateway host is of another controller that must not be crossed (R9).

Private to llmgw and pure. A generation names one set of routes of one plan: controllers that planned at the same time
give it to several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.llmgw.fleet.plugins.module_utils import applied

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.contract import PublishedBundle


def ahead(
    now: PublishedBundle, note: applied.Applied, generation: int, digest: str, plan_id: str | None, *, now_s: float
) -> str | None:
    """What of the bundle that is there speaks against a new one; None when nothing does.

    `note` lies beside it and says who published it. It counts where it names the bundle's very routes: a run that was
    killed has left the note of a bundle that never was. `now_s`: the host's clock.
    """
    if now.generation is None or now.generation < generation:
        return None
    known = (note.generation, note.routes_digest) == (now.generation, now.routes_digest)
    whose = applied.whose(note, now_s) if known else ""
    whose = f", published{whose}" if whose else ""
    if now.generation > generation:
        return (
            f"is of generation {now.generation}{whose}; the new bundle is of generation {generation}: "
            "another controller is ahead"
        )
    if now.routes_digest != digest:
        return f"is of the same generation {generation} with other routes{whose}: another controller was quicker"
    if known and not applied.may_be(note, plan_id):
        return f"is of the same generation {generation} of another plan{whose}: another controller was quicker"
    return None
