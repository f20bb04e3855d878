# SPDX-License-Identifier: Apache-2.0
"""What engines said of their memory, where it says more than a reckoning does (P13).

The nearest report counts: of the same model cut alike, for weights and the KV cache; for the reserve first on the same
class of device, then of other models by the same engine on that class.
"""

from __future__ import annotations

from llmgw.capability.memory_habits import MemoryHabits
from llmgw.model.ids import DeviceClass
from llmgw.model.replica import ProfileSpec
from llmgw.nodekit import contract
from llmgw.placement.memory.kv import Rate, SequenceCost
from llmgw.placement.memory.model_facts import KnownModel, Report
from llmgw.placement.memory.reserve import MIB
from llmgw.placement.memory.span import Span

_SAME, _SAME_RESERVE = 0.02, 0.1
_ALIKE_LEAST, _ALIKE_MOST = 0.6, 1.5


def said_weights(profile: ProfileSpec, known: KnownModel) -> Span | None:
    """Bytes of weights on a device as a replica of the profile said them; None when none has."""
    found = [report.memory.weights_mib for report in _alike(profile, known) if report.memory.weights_mib]
    return _around(found[0] * MIB, _SAME) if found else None


def said_cost(
    profile: ProfileSpec, known: KnownModel, architecture: contract.ModelArchitecture | None
) -> SequenceCost | None:
    """What a device keeps of a sequence, from the size of a KV cache and the tokens in it. Only where each token costs
    the same: with windows and states the tokens that an engine names are those of a mixture.
    """
    if architecture is None:
        return None
    mixed = (architecture.sliding_layers, architecture.chunked_layers, architecture.state_layers)
    if any(count != 0 for count in mixed):
        return None
    for report in _alike(profile, known):
        mib, tokens = report.memory.kv_cache_mib, report.memory.kv_cache_tokens
        if mib and tokens:
            token = mib * MIB / tokens
            return SequenceCost(Rate(token * (1 - _SAME)), Rate(token), Rate(token * (1 + _SAME)))
    return None


def said_reserve(
    profile: ProfileSpec, known: KnownModel, habits: MemoryHabits, device_class: DeviceClass | None
) -> Span | None:
    """Bytes that an engine took besides weights and KV cache, on this class of device; None when none said."""
    if habits.spare_outside or device_class is None:
        return None
    same = [one.rest_mib for one in _alike(profile, known) if one.device_class == device_class]
    rest = max((one for one in same if one is not None), default=None)
    if rest is not None:
        return _around(rest * MIB, _SAME_RESERVE)
    others = known.rests.get((profile.engine, str(device_class)))
    if others is None:
        return None
    return Span(others.least * _ALIKE_LEAST * MIB, others.most * MIB, others.most * _ALIKE_MOST * MIB)


def _alike(profile: ProfileSpec, known: KnownModel) -> list[Report]:
    """Reports of the same model by the same profile, cut as it is now; sorted, so that the order of nodes is one."""
    found = [
        report
        for report in known.reports
        if (report.engine, report.profile) == (profile.engine, profile.name)
        and (report.devices, report.members) == (profile.gpus, profile.nodes)
    ]
    return sorted(found, key=lambda report: (report.device_class, -(report.memory.weights_mib or 0)))


def _around(amount: float, doubt: float) -> Span:
    return Span(amount * (1 - doubt), amount, amount * (1 + doubt))
