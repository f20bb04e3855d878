# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from llmgw.cli.facts_text import node_lines
from llmgw.fleet import store
from llmgw.fleet.hosts import Host
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.nodekit import contract
from tests.support.fabric_fleets import ib, linked, tray
from tests.support.fleets import facts, node, with_facts
from tests.support.seen_fleets import ADDRESS, BAD, HOT, LOST, NOW, full_node, whole_fleet


def test_a_page_names_the_other_nodes_of_the_domain() -> None:
    snapshot = whole_fleet()
    pages = {}
    for name in ("t1", "t2"):
        one = snapshot.node(name)
        assert one is not None
        pages[name] = node_lines(name, one.facts, one, NOW, snapshot.domains)
    assert "            not ready: t2" in pages["t1"]
    assert "            with t1" in pages["t2"]


def test_a_page_has_a_line_for_what_is_unknown_and_for_what_is_none() -> None:
    unknown = node_lines("n1", contract.NodeFacts())
    none = node_lines("n1", replace(facts("n1"), engines=(), weights=(), rdma_ports=()))
    for label in ("domain", "port", "disk", "engine", "weights", "unit"):
        assert f"  {label:<9} -" in unknown
        assert f"  {label:<9} none" in none


def test_a_page_has_what_is_wrong_right_below_the_state_and_remarks_at_its_end() -> None:
    odd = contract.Finding("nvml-fallback", "info", "read otherwise")
    one = replace(with_facts(node("n1"), facts("n1")), findings=(odd, HOT, BAD))
    lines = node_lines("n1", one.facts, one, NOW)
    assert [line.split()[0] for line in lines[1:5]] == ["state", "block", "-", "warn"]
    assert lines[-1].split()[0] == "info"


def test_a_page_says_whether_older_facts_are_in_force_where_the_newest_are_broken(tmp_path: Path) -> None:
    (tmp_path / "n1.json").write_text("{", encoding="utf-8")
    host = Host("n1", node=True, gateway=False)
    (bare,) = build_snapshot([host], {"n1": store.load(tmp_path, "n1")}, View(NOW)).nodes
    shown = " ".join(" ".join(node_lines("n1", None, bare, NOW)).split())
    assert "none are stored that are older, so nothing is known of it" in shown
    assert "facts stored and unreadable" in shown
    assert "until then the last good facts are used" not in shown


def test_a_page_is_no_wider_than_a_hundred_columns_and_has_the_worst_first() -> None:
    one = full_node()
    lines = node_lines("full", one.facts, one, NOW)
    assert max(map(len, lines)) <= 100
    worst = [line.split()[0] for line in lines if line.startswith(("  block", "  warn", "  info"))]
    assert worst == ["block", "warn"]


def test_a_machine_alone_shows_what_it_knows_of_its_ports_and_its_domain() -> None:
    known = replace(
        facts("n1"), **tray(linked(), linked(state="In Progress")), rdma_ports=(ib(1), ib(2, 1, virtual_function=True))
    )
    shown = "\n".join(node_lines("this machine", known))
    assert "5f2c01aa-7d1e-4b77-9c55-0e61a2d4f003.2: 1 of 2 cards joined" in shown
    assert "port      mlx5_0:1 InfiniBand, active, 400 Gb/s, LID 1, 0000:10:00.0\n" in shown
    assert "mlx5_1:1 InfiniBand, active, 400 Gb/s, LID 2, 0000:11:00.0: not for engines, it is a" in shown


def test_a_node_of_which_nothing_is_known_says_so() -> None:
    snapshot = whole_fleet()
    new, away = snapshot.node("new"), snapshot.node("away")
    assert new is not None
    assert away is not None
    assert node_lines("new", None, new, NOW) == [
        "new",
        "  state     unseen: nothing is known of it; `llmgw facts refresh` looks",
        "  address   new",
        "  facts     none stored",
    ]
    assert node_lines("away", away.facts, away, NOW)[1].startswith(
        "  state     unreachable for 9s, last tried 0s ago: it"
    )


def test_a_card_that_somebody_else_uses_is_out() -> None:
    taken = contract.Finding("foreign-memory", "block", "a stranger is on it", subject="GPU-n1-0")
    shown = node_lines("n1", replace(facts("n1", gpus=2), findings=(taken,)))
    assert [line.partition("GPU-n1-")[2] for line in shown if "GPU-n1-" in line] == [
        "0  OUT: a stranger is on it",
        "1",
    ]


def test_a_long_card_line_of_mig_and_lost_cards_is_still_a_card() -> None:
    instance = contract.MigInstance(
        "MIG-1", 3, device_class="a100-80g-mig-3g.40gb", memory_total_mib=40192, memory_used_mib=9
    )
    nameless = contract.MigInstance(None, 4)
    cards = (
        contract.Gpu(
            0, "GPU-m", device_class="a100-80g", mig_mode=True, mig_instances=(instance, nameless), temperature_c=40
        ),
        contract.Gpu(1, None, pci_address="0000:9a:00.0"),
    )
    shown = "\n".join(node_lines("n1", replace(facts("n1"), gpus=cards)))
    for part in (
        "    0        a100-80g                     MIG mode, GPU-m\n             40 C\n",
        "    0/mig3   a100-80g-mig-3g.40gb         40192 MiB  MIG-1\n             9 MiB used\n",
        "    0/mig4   -                            at an unknown address  OUT: it has no UUID\n",
        "    1        -                            0000:9a:00.0  OUT: it has no UUID",
    ):
        assert part in shown, part


def test_a_lost_card_says_why_it_is_out_whatever_its_finding_calls_it() -> None:
    lost = contract.Finding("gpu-lost", "block", "card 5 at 0000:15:00.0 does not answer the driver", subject=ADDRESS)
    bare = contract.Finding("gpu-lost", "block", "card 6 at an unknown address does not answer the driver")
    cards = (LOST, contract.Gpu(6, None))
    page = node_lines("n1", replace(facts("n1"), gpus=cards, findings=(lost, bare)))
    assert [line for line in page if "OUT:" in line] == [
        f"{' ' * 13}OUT: card 5 at 0000:15:00.0 does not answer the driver",
        f"{' ' * 13}OUT: card 6 at an unknown address does not answer the driver",
    ]


def test_a_page_tells_who_marked_the_node_and_its_devices_when_and_why() -> None:
    known = replace(
        facts("n1", gpus=3),
        cordoned=True,
        drained=True,
        cordon_mark=contract.NodeMark("ops@ctl1", NOW - 7200, "new kernel"),
        quarantined=(contract.QuarantinedDevice("GPU-n1-2", "gpu-lost", "card 2 is gone", NOW - 60, "ops@ctl2"),),
    )
    one = replace(with_facts(node("n1"), known), cordoned=True, drained=True)
    lines = node_lines("n1", known, one, NOW)
    assert lines[2:6] == [
        "  cordoned  by ops@ctl1 2h ago: new kernel",
        "  drained   by a mark that does not tell by whom and why",
        "  out       2 (GPU-n1-2) quarantined by ops@ctl2 1m ago: card 2 is gone",
        f"  address   {one.address}",
    ]
    assert "  cordoned  by ops@ctl1: new kernel" in node_lines("n1", known)


def test_a_page_tells_that_a_host_variable_keeps_the_node_out() -> None:
    one = replace(node("n1"), drained=True)
    assert "  drained   by its host variable llmgw_drained" in node_lines("n1", one.facts, one, NOW)
    assert not any(line.startswith(("  cordoned", "  out")) for line in node_lines("n1", one.facts, one, NOW))
