# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmgw.errors import LlmgwError
from llmgw.fleet.hosts import Host, Stored
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.nodekit import contract
from tests.support.fabric_fleets import by_pci, ib, imex, linked, tray
from tests.support.fleets import facts

NOW = 10_000.0
FACTS = replace(facts("n1"), collected_at=NOW - 60)
BROKEN = LlmgwError("facts-broken", "the facts are not whole JSON", where="facts/n1.json", fix="run it again")


def host(name: str = "n1", **variables: Any) -> Host:
    return Host(name, node=True, gateway=False, variables=variables)


def gateway(states: dict[str, str], *, reachable: bool | None = True) -> contract.NodeFacts:
    endpoints = tuple(contract.EndpointHealth(endpoint, state) for endpoint, state in states.items())
    return contract.NodeFacts(collected_at=NOW, gateway=contract.GatewayFacts(reachable, 3, endpoints))


def node_of(one: Host, stored: Stored | None = None, **view: Any) -> Node:
    known = {} if stored is None else {one.name: stored}
    (node,) = build_snapshot([one], known, View(NOW, **view)).nodes
    return node


def away(seconds: float) -> Stored:
    return Stored(FACTS, None, NOW - seconds, "no route to host", NOW)


def state_of(stored: Stored | None, *gateways: Stored, **view: Any) -> NodeState:
    hosts = [host(), *(Host(f"gw{number}", node=False, gateway=True) for number in range(len(gateways)))]
    known = {f"gw{number}": one for number, one in enumerate(gateways)} | ({} if stored is None else {"n1": stored})
    (node,) = build_snapshot(hosts, known, View(NOW, **view)).nodes
    return node.state


FAILED = Stored(gateway({"chat/0@n1": "failed", "chat/1@n2": "ready"}))


def test_a_node_with_facts_is_ok_and_one_without_is_unseen() -> None:
    assert state_of(Stored(FACTS)) is NodeState.OK
    assert state_of(None) is NodeState.UNSEEN
    assert state_of(Stored(None, BROKEN)) is NodeState.UNSEEN


def test_old_facts_alone_never_take_a_node_out() -> None:
    assert state_of(Stored(replace(FACTS, collected_at=NOW - 10**6)), FAILED) is NodeState.OK


def test_a_node_out_of_reach_is_lost_when_the_grace_is_over_and_its_endpoints_fail() -> None:
    assert state_of(away(299), FAILED) is NodeState.UNREACHABLE
    assert state_of(away(300), FAILED) is NodeState.LOST
    assert state_of(away(300), FAILED, lost_after_s=301) is NodeState.UNREACHABLE


def test_time_in_which_nobody_tried_to_reach_a_node_counts_for_nothing() -> None:
    once = Stored(FACTS, None, NOW - 10**6, "no route to host", NOW - 10**6)
    assert state_of(once, FAILED) is NodeState.UNREACHABLE
    assert state_of(replace(once, unreachable_last=None), FAILED) is NodeState.UNREACHABLE


@pytest.mark.parametrize(
    "gateways",
    [
        (),
        (Stored(),),
        (Stored(gateway({"chat/0@n1": "ready"})),),
        (Stored(gateway({"chat/0@n1": "failed", "chat/1@n1": "ready"})),),
        (Stored(gateway({"chat/1@n2": "failed"})),),
        (Stored(gateway({"chat/0@n1": "failed"}, reachable=False)),),
        (Stored(gateway({"chat/0@n1": "failed"}, reachable=None)),),
        (replace(FAILED, unreachable_since=NOW),),
        (FAILED, Stored(gateway({"chat/0@n1": "loading"}))),
        (Stored(gateway({"chat/0@xn1": "failed"})),),
    ],
    ids=[
        "no gateway",
        "a gateway never read",
        "its endpoint answers",
        "one of its endpoints answers",
        "only others fail",
        "the gateway does not answer",
        "the gateway was not asked",
        "the gateway's host is out of reach",
        "two gateways disagree",
        "the failing one only ends alike",
    ],
)
def test_without_gateways_that_agree_a_node_out_of_reach_is_never_lost(gateways: tuple[Stored, ...]) -> None:
    assert state_of(away(10**6), *gateways) is NodeState.UNREACHABLE


def test_a_node_is_lost_when_it_is_declared_so() -> None:
    assert state_of(Stored(FACTS), declared_lost=frozenset({"n1"})) is NodeState.LOST
    assert node_of(host(llmgw_lost=True), Stored(FACTS)).state is NodeState.LOST
    assert node_of(host(llmgw_lost=False), Stored(FACTS)).state is NodeState.OK


def test_what_is_known_of_a_node_out_of_reach_stays_known() -> None:
    node = node_of(host(), away(10))
    assert node.facts == FACTS
    (finding,) = node.findings
    assert finding.code == "node-unreachable"
    assert "no route to host" in finding.message


def test_unreadable_facts_are_a_finding_with_the_file_and_the_remedy() -> None:
    node = node_of(host(), Stored(FACTS, BROKEN))
    (finding,) = node.findings
    assert (finding.code, finding.severity, finding.remedy) == ("facts-unreadable", "warn", "run it again")
    assert finding.message.startswith("facts/n1.json: ")
    assert node.state is NodeState.OK, "the previous facts are in force"


def test_facts_have_an_age_and_old_ones_say_so() -> None:
    assert node_of(host(), Stored(FACTS)).facts_age_s == 60
    assert node_of(host(), Stored(replace(FACTS, collected_at=None))).facts_age_s is None
    assert node_of(host(), Stored(replace(FACTS, collected_at=NOW + 99))).facts_age_s == 0, "a clock ahead of ours"
    old = node_of(host(), Stored(replace(FACTS, collected_at=NOW - 7300)))
    assert [(finding.code, finding.message) for finding in old.findings] == [
        ("facts-stale", "the facts are 2 h old"),
    ]


def test_facts_that_are_too_old_are_unknown_and_that_is_told() -> None:
    disk = contract.Filesystem("/", total_bytes=9, free_bytes=5)
    ports = (ib(1, sm_guids=("0x00000000000000aa",)),)
    known = replace(FACTS, filesystems=(disk,), rdma_ports=ports, collected_at=NOW - 7300)
    node = node_of(host(), Stored(known))
    assert node.facts is not None
    assert node.facts.filesystems == (replace(disk, free_bytes=None),)
    (finding,) = node.findings
    assert finding.message == "the facts are 2 h old: unknown now are port state, free space"
    probes = (contract.Probe("subnets", 1.0, ok=True, at=NOW - 10**5),)
    node = node_of(host(), Stored(replace(known, collected_at=NOW, probes=probes)))
    assert "some facts are old: unknown now are subnets" in [one.message for one in node.findings]


def test_facts_are_as_old_as_the_oldest_part_that_changes_whatever_was_read_since() -> None:
    day = 86400.0
    probes = (
        contract.Probe("gpus", 1.0, ok=True, at=NOW - 5),
        contract.Probe("rdma", 1.0, ok=True, at=NOW - 2 * 3600),
        contract.Probe("topology", 1.0, ok=True, at=NOW - 9 * day),
    )
    node = node_of(host(), Stored(replace(FACTS, collected_at=NOW - 5, probes=probes)))
    assert (node.facts_age_s, node.oldest_age_s, node.stale) == (5, 7200, True)
    assert [one.message for one in node.findings] == ["some facts are 2 h old"]
    fresh = node_of(host(), Stored(replace(FACTS, probes=(probes[0], probes[2]))))
    assert (fresh.oldest_age_s, fresh.stale, fresh.findings) == (60, False, ())


def test_a_node_knows_which_facts_of_it_are_too_old() -> None:
    known = replace(FACTS, **tray(linked()), collected_at=NOW - 1000)
    assert node_of(host(), Stored(known)).forgotten == ("NVLink state",)
    assert node_of(host(), Stored(replace(known, **tray(None)))).forgotten == ()


def test_a_node_out_of_reach_knows_since_when_and_when_it_was_last_tried() -> None:
    node = node_of(host(), away(10))
    assert (node.unreachable_since, node.unreachable_last) == (NOW - 10, NOW)
    assert node_of(host(), Stored(FACTS)).unreachable_since is None


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (
            "Failed via ssh: mux_client_request_session: read from master failed: Broken pipe\r\nssh: no route to host",
            "Failed via ssh: ssh: no route to host",
        ),
        (
            "Failed via ssh: mux_client_hello_exchange: write packet: Broken pipe",
            "Failed via ssh: mux_client_hello_exchange: write packet: Broken pipe",
        ),
        ("timed out", "timed out"),
    ],
)
def test_why_a_node_is_out_of_reach_is_told_without_what_ssh_says_of_its_own_socket(reason: str, told: str) -> None:
    (finding,) = node_of(host(), replace(away(10), unreachable_reason=reason)).findings
    assert finding.message == f"n1 does not answer: {told}"


def test_the_address_is_the_one_for_engines_else_ansibles_else_the_name() -> None:
    assert node_of(host()).address == "n1"
    assert node_of(host(ansible_host="10.0.0.1")).address == "10.0.0.1"
    assert node_of(host(ansible_host="10.0.0.1", llmgw_address="192.168.0.1")).address == "192.168.0.1"


def test_cordon_and_drain_come_from_the_inventory_or_from_a_marker_on_the_node() -> None:
    marked = replace(FACTS, cordoned=True, drained=True)
    for node in (
        node_of(host(llmgw_cordoned=True, llmgw_drained=True), Stored(FACTS)),
        node_of(host(), Stored(marked)),
    ):
        assert (node.cordoned, node.drained) == (True, True)
    unknown = node_of(host(), Stored(replace(FACTS, cordoned=None, drained=None)))
    assert (unknown.cordoned, unknown.drained) == (False, False)


def test_labels_are_text_whatever_yaml_made_of_them() -> None:
    assert node_of(host(llmgw_labels={"rack": 7, 1: "x"})).labels == {"rack": "7", "1": "x"}


def test_settings_are_the_roles_defaults_unless_host_variables_say_otherwise() -> None:
    plain = node_of(host()).settings
    assert (plain.scope, plain.state_dir, plain.engine_user) == ("system", "/var/lib/llmgw", "llmgw")
    own = node_of(
        host(
            llmgw_scope="user",
            llmgw_state_dir="/s",
            llmgw_model_dirs=["/a", "/b"],
            llmgw_engine_commands={"sim": "/x/sim", "llama.cpp": ["/usr/bin/python3", "/x/llama.py"]},
        )
    ).settings
    assert (own.scope, own.state_dir, own.engine_user, own.model_dirs) == ("user", "/s", None, ("/a", "/b"))
    assert own.engine_commands == {"sim": ("/x/sim",), "llama.cpp": ("/usr/bin/python3", "/x/llama.py")}


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("llmgw_cordoned", "yes", "is neither true nor false: 'yes'"),
        ("llmgw_drained", 1, "is neither true nor false: 1"),
        ("llmgw_lost", None, "is neither true nor false: None"),
        ("llmgw_labels", ["a"], "is not a mapping: ['a']"),
        ("llmgw_labels", None, "is not a mapping: None"),
        ("llmgw_scope", "root", "is neither `system` nor `user`: 'root'"),
        ("llmgw_model_dirs", "/srv", "is not a list of directories: '/srv'"),
        (
            "llmgw_model_dirs",
            ["/srv", "~/models"],
            "by their absolute paths (`~` is not expanded): ['/srv', '~/models']",
        ),
        ("llmgw_model_dirs", ["models"], "by their absolute paths"),
        ("llmgw_model_dirs", [None], "by their absolute paths"),
        ("llmgw_model_dirs", ["/srv\nx"], "by their absolute paths"),
        ("llmgw_state_dir", "llmgw", "is no absolute path (`~/` is for `llmgw_scope: user` alone): 'llmgw'"),
        ("llmgw_state_dir", "~/llmgw", "is no absolute path (`~/` is for `llmgw_scope: user` alone): '~/llmgw'"),
        ("llmgw_address", "", "is not a line of text: ''"),
        ("llmgw_address", ["10.0.0.1"], "is not a line of text"),
        ("ansible_host", "10.0.0.1\nUser=root", "is not a line of text"),
        ("llmgw_state_dir", 5, "is not a line of text: 5"),
        ("llmgw_engine_user", True, "is not a line of text: True"),
        ("llmgw_engine_commands", "/x", "is not a mapping: '/x'"),
        ("llmgw_engine_commands", {"sim": []}, "a program by its absolute path"),
        ("llmgw_engine_commands", {"sim": "llmgw-sim"}, "a program by its absolute path"),
        ("llmgw_engine_commands", {"sim": ["/x", 5]}, "a program by its absolute path"),
        ("llmgw_socket_interface", "", "is not a line of text: ''"),
        ("llmgw_socket_interface", "eth0,eth1", "is no name of one interface, such as `bond0`: 'eth0,eth1'"),
        ("llmgw_socket_interface", "=eth0", "is no name of one interface, such as `bond0`: '=eth0'"),
    ],
)
def test_a_host_variable_that_makes_no_sense_is_named_with_its_host(name: str, value: Any, says: str) -> None:
    with pytest.raises(LlmgwError) as caught:
        node_of(host(**{name: value}))
    assert caught.value.code == "inventory-value"
    assert str(caught.value).startswith(f"{name} of n1 ")
    assert says in str(caught.value)
    assert caught.value.fix is not None


def test_only_in_the_scope_of_a_user_the_state_may_be_below_a_home() -> None:
    assert node_of(host(llmgw_scope="user", llmgw_state_dir="~/llmgw")).settings.state_dir == "~/llmgw"
    with pytest.raises(LlmgwError, match="and not one below `~/`: 'llmgw'"):
        node_of(host(llmgw_scope="user", llmgw_state_dir="llmgw"))


def test_a_gateway_host_is_asked_for_the_full_path_of_its_state_too() -> None:
    with pytest.raises(LlmgwError, match="llmgw_state_dir of gw is no absolute path"):
        build_snapshot([Host("gw", node=False, gateway=True, variables={"llmgw_state_dir": "llmgw"})], {}, View(NOW))


def test_a_host_may_be_node_and_gateway_at_once_and_nodes_are_sorted() -> None:
    hosts = [host("n2"), Host("n1", node=True, gateway=True), Host("gw", node=False, gateway=True)]
    bundle = contract.PublishedBundle("/b", 7, "sha256:x")
    known = {
        "n1": Stored(replace(FACTS, gateway=contract.GatewayFacts(bundle=bundle))),
        "gw": Stored(None, None, NOW, "gone"),
    }
    fleet = build_snapshot(hosts, known, View(NOW))
    assert [node.name for node in fleet.nodes] == ["n1", "n2"]
    assert [(one.name, one.state, one.bundle) for one in fleet.gateways] == [
        ("n1", NodeState.OK, bundle),
        ("gw", NodeState.UNREACHABLE, None),
    ]
    assert fleet.taken_at == NOW


def test_of_a_gateway_that_could_not_be_looked_at_it_is_not_known_that_it_has_no_bundle() -> None:
    failed = contract.Probe("gateway", 5.0, ok=False, detail="TimeoutError: no time was left for it")
    known = {"gw": Stored(replace(FACTS, probes=(failed,))), "new": Stored(FACTS)}
    hosts = [Host(name, node=False, gateway=True) for name in known]
    first, second = build_snapshot(hosts, known, View(NOW)).gateways
    assert first.bundle == contract.PublishedBundle("")
    assert second.bundle is None


def joined(lost: frozenset[str] = frozenset()) -> FleetSnapshot:
    """Two nodes in one domain and one fabric, in which n2 has a LID that is not its own."""
    variables = {"llmgw_fabrics": {"ib-a": by_pci(1)}}
    hosts = [Host(name, node=True, gateway=False, variables=variables) for name in ("n1", "n2", "n3")]
    known = {
        name: Stored(
            replace(FACTS, **tray(linked(), imex=imex("n1", "n2", "n3")), rdma_ports=(ib(number, lid=max(number, 2)),))
        )
        for number, name in enumerate(("n1", "n2"), 1)
    }
    return build_snapshot(hosts, known | {"n3": Stored()}, View(NOW, declared_lost=lost))


def test_nodes_know_their_ports_and_their_domain_and_what_is_wrong_with_them() -> None:
    fleet = joined()
    first, second, third = fleet.nodes
    assert [port.verdict.value for port in first.ports or ()] == ["contradicted"]
    assert first.domain is not None
    assert (first.domain.domain, first.domain.ready) == (fleet.domains[0].name, True)
    assert [finding.code for finding in second.findings] == ["fabric-contradicted"]
    assert (third.ports, third.domain) == (None, None)
    assert [fabric.name for fabric in fleet.fabrics] == ["ib-a"]
    assert all(node.state is NodeState.OK for node in (first, second)), "a verdict takes no node out"


@pytest.mark.parametrize(
    ("fabrics", "code"), [({"ib-a": {"kind": "infinyband"}}, "inventory-value"), ("{{ all }}", "inventory-template")]
)
def test_a_fleet_with_a_wrong_declaration_is_refused_or_shown_with_its_fabrics_unknown(fabrics: Any, code: str) -> None:
    known = {"n1": Stored(replace(FACTS, rdma_ports=(ib(1),)))}
    with pytest.raises(LlmgwError) as refused:
        build_snapshot([host(llmgw_fabrics=fabrics)], known, View(NOW))
    told: list[LlmgwError] = []
    fleet = build_snapshot([host(llmgw_fabrics=fabrics)], known, View(NOW), told.append)
    assert [error.code for error in (refused.value, *told)] == [code, code]
    assert (fleet.fabrics, fleet.nodes[0].ports) == ((), None)
    assert not [one for one in fleet.nodes[0].findings if one.code.startswith("fabric-")]
    assert fleet.nodes[0].state is NodeState.OK


def test_a_lost_node_is_in_no_fabric_and_contradicts_nobody() -> None:
    fleet = joined(frozenset({"n1"}))
    assert (fleet.nodes[0].ports, fleet.nodes[0].domain) == (None, None)
    assert [port.verdict.value for port in fleet.nodes[1].ports or ()] == ["unverified"]


def test_a_fabric_that_makes_no_sense_is_an_error_like_any_other_variable() -> None:
    with pytest.raises(LlmgwError) as caught:
        node_of(host(llmgw_fabrics={"ib-a": {"kind": "infiniband"}}))
    assert caught.value.code == "inventory-value"
    assert str(caught.value).startswith("llmgw_fabrics of n1: ib-a ")
