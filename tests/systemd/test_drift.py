# SPDX-License-Identifier: Apache-2.0
"""What people do to units of a real manager is told as drift, and is none after the next apply (R2)."""

from __future__ import annotations

from dataclasses import replace

from llmgw.plan.drift import drift_of
from tests.support.fleets import facts, fleet, with_facts
from tests.support.fleets import node as fleet_node
from tests.systemd.node import Node


def told(node: Node) -> list[tuple[str, str]]:
    """Service and kind of all drift of the node, as it is seen now."""
    seen = with_facts(fleet_node("n1"), replace(facts("n1"), units=tuple(node.look().values())))
    return [(one.subject.removeprefix("llmgw-").partition(".")[0], one.kind) for one in drift_of(fleet(seen), ())]


def test_what_is_done_to_units_by_hand_is_told_and_put_right(node: Node) -> None:
    names = ("before", "disabled", "dropped", "edited", "gone", "stopped")
    units = {name: node.unit(name, "/bin/sleep 1000") for name in names}
    node.apply(list(units.values()))
    assert told(node) == []

    later = node.unit("before", "/bin/sleep 2000")
    (node.unit_dir / later.name).write_text(later.text)
    (node.unit_dir / units["gone"].name).unlink()
    drop_in = node.unit_dir / f"{units['dropped'].name}.d"
    drop_in.mkdir()
    (drop_in / "mine.conf").write_text("[Service]\nNice=5\n")
    node.systemctl("daemon-reload")
    node.systemctl("disable", units["disabled"].name)
    node.systemctl("stop", units["stopped"].name)
    # After `disable`, which makes systemd read all units anew.
    (node.unit_dir / units["edited"].name).write_text(units["edited"].text.replace("=test", "=mine"))
    (node.unit_dir / "llmgw-odd.0.0.service").write_text("[Service]\nExecStart=/bin/sleep 1000\n")

    assert told(node) == [
        ("before", "older"),
        ("disabled", "disabled"),
        ("dropped", "edited"),
        ("edited", "edited"),
        ("edited", "reload"),
        ("gone", "missing"),
        ("odd", "extra"),
        ("stopped", "stopped"),
    ]
    node.apply([*(unit for name, unit in units.items() if name != "before"), later], generation=2)
    assert told(node) == [("odd", "extra")]
