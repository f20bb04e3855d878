# SPDX-License-Identifier: Apache-2.0
"""How old the facts are that a plan was made from (D18): those of the node that was read the longest ago."""

from __future__ import annotations

from llmgw.fleet.aging import age_of
from llmgw.model.ids import NodeName
from llmgw.model.node import FleetSnapshot, Node

OLD_AFTER_S = 300.0
"""From this age on a view says it without being asked: something may have happened since."""
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


def oldest_facts(fleet: FleetSnapshot) -> tuple[float, NodeName] | None:
    """Seconds since the oldest facts were read and whose they are; None where nothing with an age is known.

    Counted are the units and what is true for a time only: the rest changes when somebody changes it.
    """
    ages = [(age, node.name) for node in fleet.nodes if (age := _age(node, fleet.taken_at)) is not None]
    return max(ages, key=lambda one: (one[0], one[1]), default=None)


def age_in_words(seconds: float) -> str:
    """`less than a minute`, `10 min`, `3 h`, `2 days`."""
    for size, unit in ((_DAY, "day"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= size:
            amount = int(seconds / size)
            return f"{amount} {unit}{'s' if unit == 'day' and amount != 1 else ''}"
    return "less than a minute"


def old_facts_line(fleet: FleetSnapshot) -> str | None:
    """A sentence where the facts are so old that they should be read again."""
    found = oldest_facts(fleet)
    if found is None or found[0] < OLD_AFTER_S:
        return None
    return f"The facts of {found[1]} are {age_in_words(found[0])} old: `llmgw facts refresh` reads them anew."


def _age(node: Node, now: float | None) -> float | None:
    ages = [node.oldest_age_s]
    if node.facts is not None and now is not None and node.facts.units is not None:
        ages.append(age_of(node.facts, "units", now))
    return max((age for age in ages if age is not None), default=None)
