# SPDX-License-Identifier: Apache-2.0
"""The units of a replica as they are now, finished as a plan writes them: they put back what was replaced (R4)."""

from __future__ import annotations

from dataclasses import replace

from llmgw.engines.registry import engine_of
from llmgw.model.ids import Digest, UnitName
from llmgw.model.unit import UnitFile
from llmgw.nodekit import unitchange
from llmgw.placement.instances import Instance, Part
from llmgw.plan.diff import Change


def units_before(change: Change) -> tuple[UnitFile, ...]:
    """The units that a replica runs now, finished; none where one of them does not run as its file says, was edited, or
    is not known whole: a version that llmgw did not write is none to go back to.
    """
    instance = change.instance
    if instance is None or not change.units:
        return ()
    found = [_as_it_is(part, instance, change) for part in instance.parts]
    whole = [one for one in found if one is not None]
    return tuple(whole) if len(whole) == len(found) else ()


def _as_it_is(part: Part, instance: Instance, change: Change) -> UnitFile | None:
    unit = part.unit
    sound = unitchange.is_running(unit) and unit.edited is False and unit.running_digest == unit.process_digest
    if not sound or unit.text is None or unit.process_digest is None or unit.actual_text_digest is None:
        return None
    rank = unit.rank or 0
    # How it is asked is in no unit: as its successor is, but for what the unit says itself.
    like = next((one for one in change.units if one.rank == rank), change.units[0])
    leader = instance.parts[0]
    engine = engine_of(unit.engine or "")
    readiness = replace(
        like.readiness,
        kind="leader" if rank else "http",
        address=leader.unit.address or leader.node.address,
        port=leader.unit.port,
        health_path=engine.traits.health_path if engine else like.readiness.health_path,
        expect_model=unit.served_name,
    )
    return UnitFile(
        name=UnitName(unit.name),
        node=part.node.name,
        replica=instance.replica,
        rank=rank,
        text=unit.text,
        process_digest=Digest(unit.process_digest),
        text_digest=Digest(unit.actual_text_digest),
        readiness=readiness,
        stop_timeout_s=like.stop_timeout_s,
    )
