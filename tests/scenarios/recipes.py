# SPDX-License-Identifier: Apache-2.0
"""How the facts of each scenario came about: one function a scenario, named like its folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from llmgw.fleet.hosts import Host
from llmgw.nodekit import contract
from tests.scenarios.placement_recipes import PLACEMENT
from tests.support.fleets import with_facts
from tests.support.scenario_facts import GB, NOW, Story, as_json, cards, machine, out_of_reach

Hosts = tuple[Host, ...]
Files = dict[str, str]
H200 = "h200-141g"


def plain(hosts: Hosts, folder: Path) -> Story:
    """Every node is a machine without cards."""
    return Story(hosts, folder, {host.name: machine() for host in hosts if host.node})


def fresh_fleet(hosts: Hosts, folder: Path) -> Files:
    return plain(hosts, folder).files()


def applied(hosts: Hosts, folder: Path) -> Files:
    """The catalog before was applied, and nothing happened since."""
    return plain(hosts, folder).applied().files()


def lost_node(hosts: Hosts, folder: Path) -> Files:
    story = plain(hosts, folder).applied()
    bundle = story.world.fleet.gateways[0].bundle
    assert bundle is not None
    bundle = replace(bundle, endpoints=None)
    seen = contract.GatewayFacts(reachable=True, endpoints=story.endpoints(n2="failed"), bundle=bundle)
    gateway = as_json(contract.NodeFacts(collected_at=NOW - 30, gateway=seen))
    return story.files() | {"gw.json": gateway, "n2.unreachable": out_of_reach(600, "No route to host")}


def unreachable_node(hosts: Hosts, folder: Path) -> Files:
    return plain(hosts, folder).applied().files() | {"n2.unreachable": out_of_reach(600, "Connection timed out")}


def returned_node(hosts: Hosts, folder: Path) -> Files:
    return plain(hosts, folder).applied().lost("n2").applied().files()


def unreadable_facts(hosts: Hosts, folder: Path) -> Files:
    whole = plain(hosts, folder).applied().files()
    n2, n3 = whole["n2.json"], whole["n3.json"]
    return whole | {"n2.json": n2[: len(n2) // 2], "previous/n2.json": n2, "n3.json": n3[:9]}


def unread_units(hosts: Hosts, folder: Path) -> Files:
    story = plain(hosts, folder).applied()
    n2 = story.world.fleet.node("n2")
    assert n2 is not None
    assert n2.facts is not None
    detail = "ManagerError: `systemctl show` failed: Failed to connect to bus: No such file or directory"
    finding = contract.Finding(
        "probe-failed",
        "warn",
        f"the probe 'units' failed, so its facts are unknown: {detail}",
        remedy="Mend what it names, then look again.",
        part="units",
    )
    probe = contract.Probe("units", 0.1, ok=False, detail=detail, at=NOW - 30)
    known = replace(n2.facts, units=None, generation=1, findings=(finding,), probes=(probe,))
    return story.files(endpoints=True) | {"n2.json": as_json(known)}


def gpu_classes(hosts: Hosts, folder: Path) -> Files:
    machines = {
        "a100": machine(*cards("a100", 2, "a100-80g")),
        "h200": machine(*cards("h200", 4, H200)),
        "l40s": machine(*cards("l40s", 5, "l40s-45g")),
        "west": machine(*cards("west", 2, H200)),
    }
    return Story(hosts, folder, machines).files()


def mig(hosts: Hosts, folder: Path) -> Files:
    instances = tuple(
        contract.MigInstance(f"MIG-{index}", index, device_class="a100-80g-mig-3g.40gb", memory_total_mib=40192)
        for index in (0, 4)
    )
    whole, cut = cards("n1", 2, "a100-80g")
    held = contract.Finding("foreign-memory", "block", "python (4711) holds 1200 MiB", subject="MIG-4")
    cut = replace(cut, mig_mode=True, mig_instances=instances)
    return Story(hosts, folder, {"n1": machine(whole, cut, findings=(held,))}).files()


def rollouts(hosts: Hosts, folder: Path) -> Files:
    machines = {"h200": machine(*cards("h200", 4, H200)), "l40s": machine(*cards("l40s", 4, "l40s-45g"))}
    return Story(hosts, folder, machines).applied().files()


def quarantined_card(hosts: Hosts, folder: Path) -> Files:
    story = Story(hosts, folder, {name: machine(*cards(name, 3, H200)) for name in ("n1", "n2")}).applied()
    first, second = story.world.fleet.nodes
    assert first.facts is not None
    assert second.facts is not None
    xid = contract.Finding("xid-fatal", "block", "card 1: XID 79, GPU has fallen off the bus", subject="GPU-n1-1")
    mark = contract.QuarantinedDevice(
        "GPU-n2-2", "remap-failed", "a row of its memory could not be remapped", NOW - 9000
    )
    sick = replace(first.facts, findings=(xid,), quarantined=())
    marked = replace(second.facts, quarantined=(mark,))
    nodes = (with_facts(first, sick), with_facts(second, marked))
    story.world.fleet = replace(story.world.fleet, nodes=nodes)
    return story.files()


def nothing_fits(hosts: Hosts, folder: Path) -> Files:
    def two(node: str) -> tuple[contract.Gpu, ...]:
        return cards(node, 2, H200)

    worn = contract.Finding("ecc-uncorrected", "block", "2 uncorrected ECC errors", subject="GPU-sick-card-1")
    held = contract.Finding("foreign-memory", "block", "python (4711) holds 1200 MiB", subject="GPU-foreign-memory-0")
    stuck = contract.Engine("llama.cpp", ("/opt/llama-server",), runnable=False, reason="libcuda.so.1 is missing")
    full = contract.Filesystem("/", free_bytes=20 * GB)
    machines = {
        "cordoned": machine(*two("cordoned")),
        "drained": machine(*two("drained")),
        "few-cards": machine(*cards("few-cards", 1, H200)),
        "foreign-memory": machine(*two("foreign-memory"), findings=(held,)),
        "no-engine": machine(*two("no-engine"), engines=()),
        "other-class": machine(*cards("other-class", 8, "l40s-45g")),
        "other-label": machine(*two("other-label")),
        "sick-card": machine(*two("sick-card"), findings=(worn,)),
        "small-disk": machine(*two("small-disk"), filesystems=(full,)),
        "small-memory": machine(*two("small-memory"), memory_gb=8),
        "stuck-engine": machine(*two("stuck-engine"), engines=(stuck,)),
    }
    return Story(hosts, folder, machines).files()


RECIPES: dict[str, Callable[[Hosts, Path], Files]] = {
    "changed-argument": applied,
    "cordon-and-drain": applied,
    "fresh-fleet": fresh_fleet,
    "gpu-classes": gpu_classes,
    "lost-node": lost_node,
    "mass-loss": applied,
    "mig": mig,
    "nothing-fits": nothing_fits,
    "quarantined-card": quarantined_card,
    "returned-node": returned_node,
    "rollouts": rollouts,
    "racks": fresh_fleet,
    "scale-down": applied,
    "scale-up": applied,
    "services-removed": applied,
    "unreachable-node": unreachable_node,
    "unreadable-facts": unreadable_facts,
    "unread-units": unread_units,
} | PLACEMENT
