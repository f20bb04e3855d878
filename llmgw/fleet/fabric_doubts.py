# SPDX-License-Identifier: Apache-2.0
"""What of a declared fabric is not as it was meant: ports that another subnet manager rules, ports that nothing proves,
and a declaration that no port matches (D9). Pure.

A manager of another name alone contradicts nothing, since managers move; it is told, with both names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from llmgw.fleet.fabric_evidence import PortEvidence
from llmgw.fleet.fabric_settings import Declaration

_NAMED = 5
"""How many ports a sentence names before it counts."""


def other_managers(ports: Sequence[PortEvidence], sides: Mapping[int, Sequence[int]]) -> dict[int, str]:
    """Port to a clause that names its subnet manager and that of most others, where those are known and differ.

    `sides` are the ports of one fabric, as indexes into `ports`, by the subnet that they are proved to be in.
    """
    count = Counter(found for members in sides.values() for index in members for found in ports[index].sm_guids)
    ranked = sorted(count.items(), key=lambda entry: (-entry[1], entry[0]))
    found: dict[int, str] = {}
    for members in sides.values():
        own = {one for index in members for one in ports[index].sm_guids}
        theirs = next((entry for entry in ranked if entry[0] not in own), None)
        for index in members if theirs else ():
            if ports[index].sm_guids and theirs:
                what = f"that of {theirs[1]} other{'s' if theirs[1] > 1 else ''} {theirs[0]}"
                found[index] = f"its subnet manager is {', '.join(sorted(ports[index].sm_guids))}, {what}"
    return found


def doubtful(ports: Sequence[PortEvidence], indexes: Iterable[int], told: Mapping[int, str]) -> tuple[str, ...]:
    """Sentences that name the unverified ports of a fabric whose others are confirmed."""
    by_reason: dict[str, list[str]] = {}
    for index in sorted(indexes):
        by_reason.setdefault(told.get(index, "unverified"), []).append(ports[index].name)
    return tuple(f"{_some(names)}: {reason}" for reason, names in by_reason.items())


def unmatched(name: str, declared: Mapping[str, Iterable[Declaration]], known: Iterable[str]) -> tuple[str, ...]:
    """Why a declared fabric has no ports; `known` are the nodes whose ports are known."""
    hosts = {node: one for node, declarations in declared.items() for one in declarations if one.name == name}
    seen = sum(node in hosts for node in known)
    on = f"declared on {_count(len(hosts), 'node')}"
    if not seen:
        return (f"{on}, whose ports are unknown",)
    unknown = f"; the ports of {_count(len(hosts) - seen, 'node')} are unknown" if seen < len(hosts) else ""
    return (f"{on}, and no usable port matches {_selector(next(iter(hosts.values())))}{unknown}",)


def _selector(one: Declaration) -> str:
    """What tells the ports of a fabric; adapters are each host's own and are not named."""
    if one.pci:
        return "its hcas.pci"
    if one.sm_guids:
        return f"hcas.sm_guids {_some(one.sm_guids)}"
    return f"hcas.subnet_prefix {one.subnet_prefix}" if one.subnet_prefix else f"cidrs {_some(map(str, one.cidrs))}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:_NAMED]) + (f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else "")
