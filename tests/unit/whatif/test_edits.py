# SPDX-License-Identifier: Apache-2.0
"""Nodes taken away, drained and brought back in thought, and services scaled; all of it together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from llmgw.errors import LlmgwError
from llmgw.model.node import FleetSnapshot, NodeState
from llmgw.nodekit import contract
from llmgw.whatif import edits
from llmgw.whatif.said import Said
from llmgw.whatif.spec import nodes_spec
from llmgw.whatif.suppose import Suppositions, suppose
from tests.support.fleets import catalog, fleet, node, service
from tests.support.seen_fleets import whole_fleet

FLEET = fleet(node("n1", 8), node("n2", 8, drained=True, cordoned=True), node("n3"))
CATALOG = catalog(service("chat", 2), service("code", 1))
EDITS = [edits.without_node, edits.lost, edits.drain, edits.cordon, edits.uncordon]


def names(snapshot: FleetSnapshot) -> list[str]:
    return [one.name for one in snapshot.nodes]


def test_a_node_that_is_taken_away_is_not_there_and_neither_is_what_it_runs() -> None:
    unit = contract.ObservedUnit("llmgw-chat.0.0.service", "chat/0", 0)
    after, said = edits.without_node(fleet(node("n1", units=(unit,)), node("n2")), "n1")
    assert (names(after), said) == (["n2"], Said("without n1", ("its 1 unit is gone",)))
    assert edits.without_node(FLEET, "n3")[1] == Said("without n3")
    blind = fleet(node("n1", units=None))
    assert edits.without_node(blind, "n1")[1].assumed == ("what runs there, which is unknown, is gone",)


@pytest.mark.parametrize("edit", [edits.without_node, edits.lost])
def test_a_node_that_is_gone_is_in_no_fabric_and_no_domain(
    edit: Callable[[FleetSnapshot, str], tuple[FleetSnapshot, Said]],
) -> None:
    before = whole_fleet()
    of_fabrics = {member.node for one in before.fabrics for member in one.members}
    of_domains = {member.node for one in before.domains for member in one.members}
    assert of_fabrics
    assert of_domains
    for gone in of_fabrics | of_domains:
        after, _said = edit(before, gone)
        assert gone not in [member.node for one in after.fabrics for member in one.members]
        assert gone not in [member.node for one in after.domains for member in one.members]
        assert [one.name for one in after.fabrics] == [one.name for one in before.fabrics]


def test_a_node_may_be_lost_drained_cordoned_or_brought_back() -> None:
    assert edits.lost(FLEET, "n1")[0].nodes[0].state is NodeState.LOST
    assert edits.drain(FLEET, "n1")[0].nodes[0].drained
    assert edits.cordon(FLEET, "n1")[0].nodes[0].cordoned
    back = edits.uncordon(FLEET, "n2")[0].nodes[1]
    assert (back.drained, back.cordoned) == (False, False)


def test_what_is_so_already_is_told() -> None:
    assert edits.drain(FLEET, "n2")[1] == Said("n2 is drained", ("it is so already",))
    assert edits.cordon(FLEET, "n2")[1].assumed == ("it is so already",)
    assert edits.uncordon(FLEET, "n1")[1].assumed == ("it is so already",)
    assert edits.uncordon(FLEET, "n2")[1].assumed == ()


@pytest.mark.parametrize("edit", EDITS)
def test_a_node_that_is_not_there_is_an_error_with_the_names_that_may_be_meant(
    edit: Callable[[FleetSnapshot, str], tuple[FleetSnapshot, Said]],
) -> None:
    with pytest.raises(LlmgwError, match="the inventory has no node n4") as caught:
        edit(FLEET, "n4")
    assert (caught.value.code, caught.value.fix) == ("unknown-host", "there are n1, n2, n3")
    with pytest.raises(LlmgwError) as caught:
        edit(fleet(node("gpu-01"), node("gpu-02"), node("cpu-01")), "gpu01")
    assert caught.value.fix == "did you mean gpu-01 or gpu-02 or cpu-01?"
    with pytest.raises(LlmgwError) as caught:
        edit(fleet(), "n1")
    assert caught.value.fix == "nodes are the hosts of the inventory's group fleet"


def test_a_service_has_the_number_of_replicas_that_is_supposed_and_others_keep_theirs() -> None:
    after, said = edits.scale(CATALOG, "chat", 5)
    assert [(one.name, one.replicas) for one in after.services] == [("chat", 5), ("code", 1)]
    assert said == Said("chat with 5 replicas instead of 2")
    assert edits.scale(CATALOG, "chat", 1)[1].what == "chat with 1 replica instead of 2"


@pytest.mark.parametrize(
    ("name", "replicas", "says"),
    [("chta", 2, "did you mean chat?"), ("chat", -1, "from 0 to 10000"), ("chat", 10_001, "from 0 to 10000")],
)
def test_a_service_that_is_not_there_or_a_number_that_no_catalog_has_is_refused(
    name: str, replicas: int, says: str
) -> None:
    with pytest.raises(LlmgwError) as caught:
        edits.scale(CATALOG, name, replicas)
    assert says in str(caught.value)


def test_suppositions_are_made_together_whatever_their_order() -> None:
    specs = (nodes_spec("1xh200x8"), nodes_spec("2xh200x4,memory=64"))
    first = Suppositions(specs, ("n1", "n3"), ("n2",), scale=(("chat", 3), ("code", 0)))
    turned = Suppositions(specs[::-1], ("n3", "n1"), ("n2",), scale=(("code", 0), ("chat", 3)))
    supposed = suppose(CATALOG, FLEET, first)
    assert supposed == suppose(CATALOG, FLEET, turned)
    assert names(supposed.fleet) == ["n2", "new-1", "new-2", "new-3"]
    assert [one.replicas for one in supposed.catalog.services] == [3, 0]
    assert [one.what.split(":")[0] for one in supposed.said] == [
        "2 more nodes with 4 x h200-141g each",
        "1 more node with 8 x h200-141g",
        "n2 is drained",
        "without n1",
        "without n3",
        "chat with 3 replicas instead of 2",
        "code with 0 replicas instead of 1",
    ]


def test_new_nodes_may_be_built_like_one_that_is_taken_away() -> None:
    supposed = suppose(CATALOG, FLEET, Suppositions((nodes_spec("1xh200x8,like=n1"),), ("n1",)))
    assert names(supposed.fleet) == ["n2", "n3", "new-1"]


def test_new_nodes_of_one_kind_are_not_built_like_new_ones_of_another() -> None:
    labelled = Suppositions((nodes_spec("1xl4-23gx8,label=a:b"), nodes_spec("1xl4-23gx8,memory=9")))
    nodes = suppose(CATALOG, FLEET, labelled).fleet.nodes
    assert [one.labels for one in nodes if one.name.startswith("new-")] == [{"a": "b"}, {}]


def test_one_service_with_two_numbers_is_refused_and_the_same_twice_is_once() -> None:
    with pytest.raises(LlmgwError, match="chat is given two numbers of replicas"):
        suppose(CATALOG, FLEET, Suppositions(scale=(("chat", 3), ("chat", 4))))
    assert len(suppose(CATALOG, FLEET, Suppositions(("",)[:0], ("n1", "n1"), scale=(("chat", 3),) * 2)).said) == 2


def test_nothing_supposed_is_nothing_changed() -> None:
    assert not Suppositions().any
    assert Suppositions(drained=("n1",)).any
    supposed = suppose(CATALOG, FLEET, Suppositions())
    assert (supposed.catalog, supposed.fleet, supposed.said) == (CATALOG, FLEET, ())


@pytest.mark.parametrize(
    "wanted",
    [
        Suppositions(drained=("n1",), uncordoned=("n1",)),
        Suppositions(cordoned=("n1",), uncordoned=("n1",)),
        Suppositions(without=("n1",), drained=("n1",)),
        Suppositions(without=("n1",), lost=("n1",)),
        Suppositions(lost=("n1",), uncordoned=("n1",)),
    ],
)
def test_a_node_that_would_be_two_things_at_once_is_refused(wanted: Suppositions) -> None:
    with pytest.raises(LlmgwError, match=r"n1 cannot be .* at once") as caught:
        suppose(CATALOG, FLEET, wanted)
    assert caught.value.code == "what-if-contradiction"


def test_what_goes_together_is_not_refused() -> None:
    assert len(suppose(CATALOG, FLEET, Suppositions(drained=("n1",), cordoned=("n1",), uncordoned=("n2",))).said) == 3


def test_a_service_may_be_named_as_clients_call_it() -> None:
    wanted = catalog(replace(service("chat-70b", 2), served_name="org/Chat", aliases=("chat",)), service("code", 1))
    after, said = edits.scale(wanted, "chat", 5)
    assert [one.replicas for one in after.services] == [5, 1]
    assert said == Said("chat-70b with 5 replicas instead of 2", ("chat is what clients call chat-70b",))
    with pytest.raises(LlmgwError, match="chat-70b is given two numbers"):
        suppose(wanted, FLEET, Suppositions(scale=(("chat", 3), ("chat-70b", 4))))
