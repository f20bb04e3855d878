# SPDX-License-Identifier: Apache-2.0
"""A group goes on with the version that it runs while its nodes have different ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.engines.group_versions import mixed_versions
from llmgw.model.node import Node
from llmgw.nodekit import contract, unitfile
from tests.support.fleets import with_facts
from tests.support.world import observe
from tests.unit.units.unit_cases import Case, group, machine, wide

OLD, NEW = "0.32.0", "0.33.0"


def having(on: Node, version: str | None) -> Node:
    assert on.facts is not None
    found = () if version is None else (contract.Engine("vllm", (f"/opt/vllm/{version}/bin/vllm",), version),)
    return with_facts(on, replace(on.facts, engines=found))


def on_versions(*versions: str | None, engine: str = "vllm") -> list[Case]:
    """The members of a group that was started on OLD, on nodes that have these now."""
    fresh = [having(machine(name, gpus=8), OLD) for name in ("n1", "n2")]
    started = [group(wide("vllm"), rank, nodes=(fresh[0], fresh[1])).unit for rank in (0, 1)]
    now = []
    for on, unit, version in zip(fresh, started, versions, strict=True):
        later = having(on, version)
        assert later.facts is not None
        now.append(with_facts(later, replace(later.facts, units=(observe(unit),))))
    return [group(wide(engine), rank, nodes=(now[0], now[1])) for rank in (0, 1)]


SAME = [one.unit.text for one in on_versions(OLD, OLD)]


@pytest.mark.parametrize("versions", [(OLD, NEW), (NEW, OLD), (None, NEW), (NEW, None), (None, None)])
def test_nothing_of_a_group_changes_while_its_nodes_differ(versions: tuple[str | None, ...]) -> None:
    assert [one.unit.text for one in on_versions(*versions)] == SAME


def test_all_members_are_started_anew_once_all_nodes_have_the_new_version() -> None:
    for case in on_versions(NEW, NEW):
        assert unitfile.parse(case.unit.text).engine_version == NEW
        assert f"/opt/vllm/{NEW}/bin/vllm serve" in case.unit.text


def test_the_versions_that_differ_are_told() -> None:
    for versions, told in (((OLD, NEW), (OLD, NEW)), ((None, NEW), (OLD, NEW)), ((NEW, NEW), ()), ((OLD, OLD), ())):
        case = on_versions(*versions)[0]
        assert mixed_versions(case.replica, case.nodes) == told


def test_a_member_that_has_no_unit_yet_is_started_on_what_its_node_has() -> None:
    first, second = on_versions(OLD, NEW)[0].nodes.values()
    assert second.facts is not None
    bare = with_facts(second, replace(second.facts, units=()))
    case = group(wide("vllm"), 1, nodes=(first, bare))
    assert mixed_versions(case.replica, case.nodes) == ()
    assert unitfile.parse(case.unit.text).engine_version == NEW


def test_the_version_that_another_engine_had_is_none_of_this_one() -> None:
    text = on_versions(None, None, engine="sglang")[0].unit.text
    assert unitfile.parse(text).engine_version is None
    assert "/opt/vllm/" not in text
