# SPDX-License-Identifier: Apache-2.0
"""What becomes of the routes to nodes whose units cannot be seen, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw.fleet.published import Published, node_of
from llmgw.model.node import FleetSnapshot
from llmgw.plan.wording import some


def unseen_notes(fleet: FleetSnapshot, served: Published) -> Iterator[str]:
    """A sentence for each node whose routes stay because its units cannot be seen; one where nothing is published."""
    if served.untold:
        yield untold_note(served)
    for node in fleet.nodes:
        kept = [one.id.rpartition("@")[0] for one in served.endpoints if node_of(one.id) == node.name]
        if kept:
            yield (
                f"gateways go on routing to {some(kept)} on {node.name} as they do now: its units cannot be seen, and "
                f"`llmgw nodes {node.name}` tells why"
            )


def untold_note(served: Published) -> str:
    """That no routes are published, why, and what mends it."""
    first, many = served.untold[0], len(served.untold) > 1
    return (
        f"nothing is changed and no routes are published: the units of {some(served.untold)} cannot be seen, and a "
        f"gateway that may route to {'them' if many else 'it'} does not tell its routes; mend what "
        f"`llmgw nodes {first}` names and apply again, or set llmgw_lost: true if {first} is gone"
    )
