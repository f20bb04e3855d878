# SPDX-License-Identifier: Apache-2.0
"""How many ports in a row what runs has on its node, as its units say (P8).

A unit names the first; the others follow from what its process is told. They are its own until it is stopped, whatever
the catalog asks of its profile by now.
"""

from __future__ import annotations

from llmgw.capability.derived_ports import ports_from_the_meeting
from llmgw.engines.members import PORTS_OF_A_MEMBER, RENDEZVOUS_OFFSET, ports_needed
from llmgw.model.replica import Catalog, ProfileSpec
from llmgw.nodekit import contract

_COPIES = frozenset({"--data-parallel-size", "--dp-size"})
_MAY_SAY_MORE = ("--data-parallel", "--dp-size", "-dp-")
"""In the text of every unit with more ports than its kind of replica has anyway."""


def ports_held(unit: contract.ObservedUnit, catalog: Catalog) -> int:
    """How many ports in a row are a unit's, from the one that it names on. Where its text is unknown, as many as the
    profile of its name takes now.
    """
    several = (unit.members or 1) > 1
    alone = PORTS_OF_A_MEMBER if several else 1
    if unit.text is None:
        return max([alone, *(ports_needed(one) for one in _profiles(catalog, unit.profile))])
    if not any(word in unit.text for word in _MAY_SAY_MORE):
        return alone
    words = tuple(unit.text.split())
    copies = not several and any(word.partition("=")[0] in _COPIES for word in words)
    return (1 + RENDEZVOUS_OFFSET if copies else alone) + ports_from_the_meeting(unit.engine or "", words)


def _profiles(catalog: Catalog, name: str | None) -> list[ProfileSpec]:
    return [one for service in catalog.services for one in service.profiles if one.name == name]
