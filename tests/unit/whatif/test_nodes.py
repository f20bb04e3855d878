# SPDX-License-Identifier: Apache-2.0
"""Nodes added in thought: what they are copied from, what they have, and what is told of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.errors import LlmgwError
from llmgw.fleet.hosts import Host, Stored
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.model.fabric import Verdict
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.nodekit import contract
from llmgw.whatif.edits import without_node
from llmgw.whatif.nodes import with_nodes
from llmgw.whatif.spec import GB, nodes_spec
from tests.support.fabric_fleets import ib
from tests.support.fleets import catalog, facts, fleet, gpu, node, profile, service, with_facts

CATALOG = catalog(service("chat", 1, (profile("p", "sim", ("h200-141g",), 8),)))

SEEN = ib(1, sm_guids=("0x00000000000000aa",))
"""A port of a fabric that nobody declared."""


def added(snapshot: FleetSnapshot, text: str) -> tuple[Node, tuple[str, ...]]:
    """The first of the new nodes, and what was assumed."""
    after, said = with_nodes(CATALOG, snapshot, nodes_spec(text))
    return next(one for one in after.nodes if one.name.startswith("new-")), said.assumed


def with_cards(one: Node, *cards: contract.Gpu) -> Node:
    assert one.facts is not None
    return with_facts(one, replace(one.facts, gpus=cards))


def linked_cards(name: str, count: int = 8) -> tuple[contract.Gpu, ...]:
    """Cards that are all joined over NVLink, four on each socket, with wear and load."""
    cards = [gpu(index, name) for index in range(count)]
    return tuple(
        replace(
            card,
            numa_node=card.index // 4,
            nvlink_peers=tuple(contract.NvlinkPeer(str(one.uuid), 18) for one in cards if one is not card),
            nic_paths=(contract.NicPath(f"mlx5_{card.index}", "PIX"),),
            processes=(contract.DeviceProcess(7, "python", 900),),
            xids=(contract.Xid(79),),
            serial=f"S{card.index}",
        )
        for card in cards
    )


def fabric_fleet() -> FleetSnapshot:
    """a1 and a2 in fabric ib-a, b1 in ib-b, c1 in both; every node has its cards and a slow port of no fabric."""
    places = {"a1": ("ib-a",), "a2": ("ib-a",), "b1": ("ib-b",), "c1": ("ib-a", "ib-b")}
    hosts, stored = [], {}
    for number, (name, fabrics) in enumerate(places.items()):
        ports = tuple(
            ib(100 * number + at, at, f"fec0:0000:0000:000{1 + int(fabrics[at % len(fabrics)] == 'ib-b')}")
            for at in range(4)
        )
        declared = {
            one: {"kind": "infiniband", "hcas": {"subnet_prefix": f"fec0:0:0:{1 + int(one == 'ib-b')}"}}
            for one in ("ib-a", "ib-b")
        }
        hosts.append(Host(name, node=True, gateway=False, variables={"llmgw_fabrics": declared}))
        known = facts(name, 8, device_class="l40s-45g" if name == "c1" else "h200-141g", rdma_ports=ports)
        stored[name] = Stored(known)
    return build_snapshot(hosts, stored, View(1000.0))


def test_new_nodes_are_built_like_a_node_with_the_same_devices() -> None:
    old = with_cards(node("n1", memory_gb=2000), *linked_cards("n1"))
    new, assumed = added(fleet(old, node("c1")), "2xh200x8")
    assert assumed[0] == "built like n1: topology, memory, engines and mounts as there, own disks empty"
    assert new.facts is not None
    assert old.facts is not None
    assert (new.facts.memory, new.facts.engines) == (old.facts.memory, old.facts.engines)
    assert new.devices is not None
    assert [device.uuid for device in new.devices] == [f"GPU-new-1-{index}" for index in range(8)]
    assert [device.numa_node for device in new.devices] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert new.devices[7].nic_paths == (contract.NicPath("mlx5_7", "PIX"),)
    assert set(new.devices[0].nvlink_peers or ()) == {f"GPU-new-1-{index}" for index in range(1, 8)}


def test_what_wears_loads_or_blocks_the_old_node_is_not_on_the_new_one() -> None:
    full = contract.Filesystem("/", total_bytes=1000 * GB, free_bytes=1, shared=False)
    filer = contract.Filesystem("/mnt", total_bytes=9000 * GB, free_bytes=5, shared=True)
    weights = (contract.Weights("a", "/a", shared=False), contract.Weights("b", "/mnt/b", shared=True))
    broken = (contract.Finding("xid", "block", "card 0 fell off", subject="GPU-n1-0"),)
    unit = contract.ObservedUnit("llmgw-chat.0.0.service", "chat/0", 0, devices=("GPU-n1-1",), port=18000)
    bare = node(
        "n1",
        filesystems=(full, filer),
        weights=weights,
        findings=broken,
        units=(unit,),
        generation=4,
        cordoned=True,
        drained=True,
    )
    old = with_cards(bare, *linked_cards("n1"))
    assert old.devices is not None
    assert old.devices[0].blocked_by
    new, assumed = added(fleet(old), "1xh200x8")
    assert new.facts is not None
    assert new.devices is not None
    assert (new.facts.units, new.facts.generation, new.findings, new.facts.findings) == ((), None, (), ())
    assert (new.state, new.cordoned, new.drained) == (NodeState.OK, False, False)
    assert not [one for one in new.devices if one.blocked_by or one.kept_away_by or one.foreign_used_mib]
    assert [one.serial or one.xids for one in new.facts.gpus or ()] == [None] * 8
    assert [one.free_bytes for one in new.facts.filesystems or ()] == [1000 * GB, 5]
    assert [one.path for one in new.facts.weights or ()] == ["/mnt/b"]
    assert "of the weights on n1 only those on shared storage" in assumed


def test_labels_are_those_that_all_such_nodes_have_and_those_that_were_said() -> None:
    snapshot = fleet(
        node("n1", 8, labels={"pool": "prod", "rack": "r1", "site": "x"}),
        node("n2", 8, labels={"pool": "prod", "rack": "r2", "site": "x"}),
        node("n3", 4, labels={"pool": "dev"}),
    )
    new, assumed = added(snapshot, "1xh200x8,label=site:y,label=row:9")
    assert new.labels == {"pool": "prod", "row": "9", "site": "y"}
    assert "labels pool=prod, row=9, site=y, as on all such nodes" in assumed


def test_a_node_that_answers_is_copied_before_one_that_does_not_unless_it_is_named() -> None:
    snapshot = fleet(node("n1", 8, 64, state=NodeState.UNREACHABLE), node("n2", 8, 128))
    assert added(snapshot, "1xh200x8")[1][0].startswith("built like n2:")
    assert added(snapshot, "1xh200x8,like=n1")[1][0].startswith("built like n1:")


def test_a_node_that_is_named_must_be_there_and_have_the_devices() -> None:
    snapshot = fleet(node("gpu-01", 8), node("gpu-02", 4))
    with pytest.raises(LlmgwError, match="the inventory has no node gpu-3") as caught:
        added(snapshot, "1xh200x8,like=gpu-3")
    assert caught.value.fix == "did you mean gpu-02 or gpu-01?"
    with pytest.raises(LlmgwError, match="gpu-02 has 4 x h200-141g: a node like it has not 8 x h200-141g"):
        added(snapshot, "1xh200x8,like=gpu-02")


def test_without_a_like_node_what_is_unknown_is_told_and_keeps_nothing_away() -> None:
    new, assumed = added(fleet(node("n1", 4)), "1xh200x8")
    assert assumed == (
        (
            "no node of the fleet has 8 x h200-141g: topology, memory and disks are unknown, "
            "and unknown keeps nothing away"
        ),
        "the engines that the catalog uses are installed",
        "memory=GB tells the host memory",
        "in no fabric: fabric=NAME tells it",
    )
    assert new.facts is not None
    assert new.devices is not None
    assert (new.facts.memory, new.facts.filesystems) == (None, None)
    assert [one.kind for one in new.facts.engines or ()] == ["sim"]
    assert (new.devices[0].compute_capability, new.devices[0].memory_total_mib) == ("9.0", 143771)
    assert new.devices[0].nvlink_peers is None


def test_cards_that_are_never_built_without_nvlink_are_joined_by_it() -> None:
    new, _assumed = added(fleet(), "1xb200x4")
    assert new.devices is not None
    assert len(new.devices[0].nvlink_peers or ()) == 3


def test_mig_instances_are_devices_of_their_class() -> None:
    new, _assumed = added(fleet(), "1xa100-80g-mig-3g.40gbx2")
    assert new.devices is not None
    assert [(one.mig, one.device_class) for one in new.devices] == [(True, "a100-80g-mig-3g.40gb")] * 2


def test_memory_and_weights_that_were_said_are_there() -> None:
    new, assumed = added(fleet(node("n1", 8, 64)), "1xh200x8,memory=2000,weights=Qwen/Qwen3-32B")
    assert new.facts is not None
    assert new.facts.memory == contract.Memory(2000 * GB, 2000 * GB)
    assert [one.model for one in new.facts.weights or ()] == ["Qwen/Qwen3-32B"]
    assert {"2000 GB of memory", "the weights of Qwen/Qwen3-32B lie there"} <= set(assumed)


def test_new_names_are_taken_by_nobody_and_in_the_order_of_their_numbers() -> None:
    first, said = with_nodes(CATALOG, fleet(node("new-2", 8)), nodes_spec("12xh200x8"))
    names = [one.name for one in first.nodes]
    assert len(set(names)) == 13
    assert said.what == "12 more nodes with 8 x h200-141g each: new-02 to new-13"
    second, _said = with_nodes(CATALOG, first, nodes_spec("2xcpu"))
    assert len({one.name for one in second.nodes}) == 15


@pytest.mark.parametrize(
    ("text", "known", "means"),
    [
        ("h200", ("h200-141g", "h100-80g"), "h200-141g"),
        ("a100", ("a100-40g", "a100-40g-mig-1g.5gb"), "a100-40g"),
        ("a100-40g", ("a100-40g", "a100-40g-mig-1g.5gb"), "a100-40g"),
        ("a100-40g-mig", ("a100-40g", "a100-40g-mig-1g.5gb"), "a100-40g-mig-1g.5gb"),
        ("gb300", (), "gb300-278g"),
        ("mine-9g", ("mine-9g",), "mine-9g"),
    ],
)
def test_a_class_is_named_in_full_or_by_a_prefix_the_fleets_own_first(
    text: str, known: tuple[str, ...], means: str
) -> None:
    snapshot = fleet(*(node(f"n{at}", 1, device_class=name) for at, name in enumerate(known)))
    new, _assumed = added(snapshot, f"1x{text}x1")
    assert [one.device_class for one in new.devices or ()] == [means]


def test_a_class_of_the_catalog_is_known_too() -> None:
    wanted = catalog(service("chat", 1, (profile("p", classes=("x9-12g",), gpus=1),)))
    after, _said = with_nodes(wanted, fleet(), nodes_spec("1xx9x1"))
    assert [one.device_class for one in after.nodes[0].devices or ()] == ["x9-12g"]


def test_a_class_that_may_be_several_or_none_is_refused_with_their_names() -> None:
    snapshot = fleet(node("n1", 1, device_class="a100-40g"), node("n2", 1, device_class="a100-80g"))
    with pytest.raises(LlmgwError, match="a100 may be a100-40g or a100-80g"):
        added(snapshot, "1xa100x1")
    with pytest.raises(LlmgwError, match="no device class is known by the name h300") as caught:
        added(snapshot, "1xh300x1")
    assert "h200-141g" in (caught.value.fix or "")


def test_a_fabric_that_all_such_nodes_are_in_is_theirs_too() -> None:
    snapshot = fabric_fleet()
    two = replace(snapshot, nodes=tuple(one for one in snapshot.nodes if one.name != "b1"))
    new, assumed = added(two, "1xh200x8")
    assert "in ib-a, as all such nodes" in assumed
    assert {(port.fabric, port.verdict, port.node) for port in new.ports or ()} == {
        ("ib-a", Verdict.CONFIRMED, "new-1")
    }


def test_a_fabric_that_is_theirs_too_is_no_better_proved_than_it_is() -> None:
    snapshot = build_snapshot(
        (Host("n1", node=True, gateway=False),), {"n1": Stored(facts("n1", 8, rdma_ports=(SEEN,)))}, View(1000.0)
    )
    new, _assumed = added(snapshot, "1xh200x8")
    assert [(port.fabric, port.verdict) for port in new.ports or ()] == [("ib-000000aa", Verdict.UNDECLARED)]
    asked, _assumed = added(snapshot, "1xh200x8,fabric=ib-000000aa")
    assert [(port.fabric, port.verdict) for port in asked.ports or ()] == [("ib-000000aa", Verdict.CONFIRMED)]


def test_where_such_nodes_are_in_different_fabrics_new_ones_are_in_none_and_that_is_told() -> None:
    new, assumed = added(fabric_fleet(), "1xh200x8")
    assert {port.fabric for port in new.ports or ()} == {None}
    assert "in no fabric, as such nodes are in ib-a or in ib-b: fabric=NAME tells it" in assumed
    new, assumed = added(fabric_fleet(), "1xh200x8,fabric=none")
    assert {port.fabric for port in new.ports or ()} == {None}
    assert "in no fabric" in assumed
    assert {port.verdict for port in new.ports or ()} == {Verdict.UNDECLARED}


@pytest.mark.parametrize("name", ["ib-a", "ib-b"])
def test_in_a_fabric_by_name_the_node_has_the_ports_of_a_node_that_is_in_it(name: str) -> None:
    snapshot = fabric_fleet()
    after, said = with_nodes(CATALOG, snapshot, nodes_spec(f"2xh200x8,fabric={name}"))
    assert f"in fabric {name}, confirmed" in said.assumed
    assert said.assumed[0].startswith(f"built like {'a1' if name == 'ib-a' else 'b1'}:")
    known = {fabric.name: [member.node for member in fabric.members] for fabric in after.fabrics}
    assert {one for one, members in known.items() if "new-1" in members} == {name}
    new = after.node("new-1")
    assert new is not None
    assert [port.name for port in new.ports or ()] == ["mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1"]


def test_of_a_node_in_several_fabrics_only_the_ports_of_the_one_asked_for_are_in_it() -> None:
    new, _assumed = added(fabric_fleet(), "1xl40sx8,fabric=ib-b")
    assert [(port.name, port.fabric) for port in new.ports or ()] == [
        ("mlx5_0:1", None),
        ("mlx5_1:1", "ib-b"),
        ("mlx5_2:1", None),
        ("mlx5_3:1", "ib-b"),
    ]
    both, assumed = added(fabric_fleet(), "1xl40sx8")
    assert {port.fabric for port in both.ports or ()} == {"ib-a", "ib-b"}
    assert "in ib-a and ib-b, as all such nodes" in assumed


def test_a_fabric_that_nobody_has_is_one_of_the_new_nodes_own_and_that_is_told() -> None:
    after, said = with_nodes(CATALOG, fabric_fleet(), nodes_spec("2xh200x8,fabric=ib-new"))
    assert "in a fabric of their own, ib-new: the fleet has ib-a and ib-b" in said.assumed
    fabric = next(one for one in after.fabrics if one.name == "ib-new")
    assert [member.node for member in fabric.members] == ["new-1", "new-2"]
    assert fabric.verdict is Verdict.CONFIRMED


def test_where_no_ports_are_known_a_fabric_makes_up_one_for_each_device() -> None:
    new, assumed = added(fleet(node("n1", 4)), "1xh200x4,fabric=ib-a")
    assert [(port.name, port.fabric) for port in new.ports or ()] == [(f"mlx5_{at}:1", "ib-a") for at in range(4)]
    assert "their ports are not known: one for each device, mlx5_0 and so on" in assumed


def test_a_domain_has_every_card_of_the_new_nodes_joined() -> None:
    cards = contract.GpuFabric("Completed", "Success", "5f2c01aa-7d1e", 2)
    old = with_cards(node("t1"), *(replace(gpu(at, "t1", "gb200-186g"), fabric=cards) for at in range(4)))
    after, said = with_nodes(CATALOG, fleet(old), nodes_spec("2xgb200x4,domain=rack-9"))
    assert "in a new NVLink domain rack-9, every card joined and IMEX up" in said.assumed
    (domain,) = after.domains
    assert domain.ready == ("new-1", "new-2")
    new = after.node("new-1")
    assert new is not None
    assert new.domain is not None
    assert {one.fabric.cluster_uuid for one in new.devices or () if one.fabric} == {domain.cluster_uuid}
    outside, _assumed = added(fleet(old), "1xgb200x4")
    assert {one.fabric.cluster_uuid for one in outside.devices or () if one.fabric} == {None}


def test_a_domain_of_which_every_member_is_taken_away_is_gone() -> None:
    after, _said = with_nodes(CATALOG, fleet(), nodes_spec("1xgb200x4,domain=rack-9"))
    assert len(after.domains) == 1
    assert without_node(after, "new-1")[0].domains == ()


def test_an_engine_that_does_not_run_anywhere_is_taken_as_newly_installed() -> None:
    broken = (contract.Engine("sim", ("/old/sim",), runnable=False),)
    new, _assumed = added(fleet(node("n1", engines=broken)), "1xh200x8")
    assert new.facts is not None
    assert [(one.command, one.runnable) for one in new.facts.engines or ()] == [
        (("/opt/llmgw/engines/sim/current/bin/llmgw-sim",), None)
    ]


def test_the_fleet_itself_stays_as_it_is_but_for_the_new_nodes() -> None:
    snapshot = fabric_fleet()
    after, _said = with_nodes(CATALOG, snapshot, nodes_spec("3xh200x8,fabric=ib-a"))
    assert [one for one in after.nodes if not one.name.startswith("new-")] == list(snapshot.nodes)
    assert [one.name for one in after.nodes] == sorted(one.name for one in after.nodes)
