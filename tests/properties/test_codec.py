# SPDX-License-Identifier: Apache-2.0
"""What is written is read back the same; what is not whole raises the codec's own error and nothing else."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from llmgw.decide import decide
from llmgw.errors import LlmgwError
from llmgw.fleet.document import fleet_document
from llmgw.fleet.facts import parse_facts
from llmgw.model.route import BUNDLE_FORMAT, Bundle
from llmgw.nodekit import contract
from llmgw.plan.codec import load_plan, plan_document, plan_summary
from llmgw.routes.codec import dump_bundle, load_bundle, routes_digest
from tests.properties.cases import Case, cases
from tests.support.world import World

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
facts_like = st.fixed_dictionaries(
    {"contract_version": st.integers(0, 3)},
    optional={name: json_values for name in contract.NodeFacts.__dataclass_fields__ if name != "contract_version"},
)
bundle_like = st.fixed_dictionaries({}, optional=dict.fromkeys(Bundle.__dataclass_fields__, json_values))


@settings(max_examples=40)
@given(cases())
def test_plans_routes_and_facts_of_any_fleet_survive_their_json(case: Case) -> None:
    world = World(case.fleet)
    world.apply(case.first)
    decision = decide(case.second, world.fleet)
    assert load_plan(json.dumps(plan_document(decision.plan)).encode()) == decision.plan
    bundle = Bundle(
        BUNDLE_FORMAT,
        decision.plan.generation,
        routes_digest(decision.routes),
        decision.routes,
        world.fleet.taken_at,
        fleet_document(world.fleet),
        plan_summary(decision.plan),
    )
    again = load_bundle(dump_bundle(bundle).encode())
    assert again == bundle
    assert routes_digest(again.routes) == bundle.routes_digest
    for node in world.fleet.nodes:
        assert node.facts is not None
        assert parse_facts(json.loads(json.dumps(asdict(node.facts)))) == node.facts


@given(
    st.binary()
    | json_values.map(lambda value: json.dumps(value).encode())
    | bundle_like.map(lambda v: json.dumps(v).encode())
)
def test_any_bytes_are_a_bundle_or_an_error_of_ours(data: bytes) -> None:
    try:
        load_bundle(data)
    except LlmgwError as error:
        assert error.code in ("bundle-broken", "bundle-format")  # noqa: PT017


@given(json_values | facts_like)
def test_any_json_is_facts_or_an_error_of_ours(document: object) -> None:
    try:
        parse_facts(document)
    except LlmgwError as error:
        assert error.code == "facts-broken"  # noqa: PT017


@given(st.binary())
def test_bytes_are_never_a_plan_by_chance(data: bytes) -> None:
    with pytest.raises(ValidationError):
        load_plan(data)
