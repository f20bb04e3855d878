# SPDX-License-Identifier: Apache-2.0
"""`llmgw plan` over a fleet and a catalog that are changed in thought: what it prints, and that nothing is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmgw.catalog.load import load_catalog
from llmgw.nodekit import contract
from tests.support import golden
from tests.support.fleet_directory import Called, FleetDirectory
from tests.support.fleets import facts, fleet, node
from tests.support.world import World

Call = Callable[..., Called]
HOSTS = """\
all:
  children:
    fleet:
      vars: {llmgw_labels: {pool: prod}}
      hosts:
        gpu-01: {llmgw_address: 10.0.0.1}
        gpu-02: {llmgw_address: 10.0.0.2}
        gpu-03: {llmgw_address: 10.0.0.3}
    gateway:
      hosts:
        gw:
"""
CATALOG = """\
version: 1
models:
  smol: {path: /srv/models/smol.gguf}
profiles:
  whole: {engine: sim, model: smol, devices: h200-141g, gpus: 8}
  half: {engine: sim, model: smol, devices: h200-141g, gpus: 4}
  dev: {engine: sim, model: smol, devices: h200-141g, gpus: 1, node_selector: {pool: dev}}
services:
  big: {profiles: whole, replicas: 2}
  chat: {profiles: half, replicas: 2}
"""
LACKING = CATALOG.replace("whole, replicas: 2", "whole, replicas: 4") + "  odd: {profiles: dev, replicas: 2}\n"
QUESTIONS = {
    "with-nodes": (LACKING, ("--with-nodes", "2xh200x8,memory=2000")),
    "without-node": (CATALOG, ("--without-node", "gpu-02")),
    "drain-and-replace": (CATALOG, ("--drain", "gpu-01", "--with-nodes", "1xh200x8,like=gpu-01,label=pool:new")),
    "scale": (CATALOG, ("--scale", "chat=3", "--scale", "big=1")),
    "smallest": (LACKING, ("--smallest", "h200x8")),
    "smallest-of-nothing": (CATALOG, ("--smallest", "h200x8")),
    "smallest-of-the-wrong-kind": (LACKING, ("--smallest", "h200x2")),
    "smallest-after-a-loss": (CATALOG, ("--without-node", "gpu-02", "--smallest", "h200x4,fabric=ib-a")),
}


@pytest.fixture
def cards(directory: FleetDirectory) -> FleetDirectory:
    """Three nodes of eight cards, on which big and chat run."""
    names = ("gpu-01", "gpu-02", "gpu-03")
    directory.hosts(HOSTS)
    directory.catalog(CATALOG)
    world = World(fleet(*(replace(node(name, 8, 2000), address=f"10.0.0.{name[-1]}") for name in names)))
    world.apply(load_catalog(directory.path / "catalog.yaml"))
    for one in world.fleet.nodes:
        assert one.facts is not None
        directory.store(one.name, one.facts)
    bundle = world.fleet.gateways[0].bundle
    directory.store("gw", contract.NodeFacts(gateway=contract.GatewayFacts(reachable=True, bundle=bundle)))
    return directory


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_questions_are_answered_as_they_were(cards: FleetDirectory, llmgw: Call, *, update_golden: bool) -> None:
    produced = {}
    for name, (text, question) in QUESTIONS.items():
        cards.catalog(text)
        called = llmgw("plan", "-i", cards.path, *question)
        assert called.err == ""
        assert called.status == (3 if "cannot be placed" in called.out else 0)
        produced[f"{name}.txt"] = f"$ llmgw plan {' '.join(question)}\n{called.out}"
    golden.compare(Path(__file__).parent / "whatif", produced, update=update_golden)


@pytest.mark.parametrize("question", QUESTIONS)
def test_json_has_what_the_text_says_and_nothing_is_written(cards: FleetDirectory, llmgw: Call, question: str) -> None:
    text, arguments = QUESTIONS[question]
    cards.catalog(text)
    before = everything(cards.path)
    called = llmgw("plan", "-i", cards.path, *arguments, "--json")
    document = json.loads(called.out)
    assert document["format_version"] == 1
    assert set(document) == {"format_version", "supposed", "smallest", "plan", "difference"}
    shown = llmgw("plan", "-i", cards.path, *arguments)
    assert shown.status == called.status
    for one in document["supposed"]:
        assert f"Supposed: {one['what']}\n" in shown.out
        assert all(f"    {assumed}\n" in shown.out for assumed in one["assumed"])
    for change in document["difference"]["gained"]:
        assert f"{change['replica']} on {', '.join(change['after'])}\n" in shown.out
    assert (document["smallest"] is not None) == ("--smallest" in arguments)
    assert document["plan"]["inputs"] is None
    assert everything(cards.path) == before


def test_the_numbers_of_an_answer_are_in_its_json(cards: FleetDirectory, llmgw: Call) -> None:
    cards.catalog(LACKING)
    found = json.loads(llmgw("plan", "-i", cards.path, "--smallest", "h200x8", "--json").out)
    smallest: dict[str, Any] = found["smallest"]
    assert (smallest["nodes"], smallest["missing"], smallest["exact"], smallest["monotone"]) == (2, 4, True, True)
    assert [(need["service"], need["nodes"]) for need in smallest["needs"]] == [("big", 2), ("odd", None)]
    assert {one["replica"] for one in smallest["never"]} == {"odd/0", "odd/1"}
    assert found["supposed"][0]["what"] == "2 more nodes with 8 x h200-141g each: new-1 and new-2"
    (devices,) = found["difference"]["devices"]
    assert (devices["total_before"], devices["total_after"]) == (24, 40)


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("--with-nodes", "h200x8"), 64, "`h200x8`: it does not begin with a number of nodes"),
        (("--with-nodes", "4xh200x8,fabrik=a"), 64, "did you mean fabric?"),
        (("--smallest", "4xh200x8"), 64, "which is what is looked for: write h200x8"),
        (("--scale", "chat"), 64, "write SERVICE=N, such as chat=4"),
        (("--scale", "chat=many"), 64, "write SERVICE=N, such as chat=4"),
        (("--node", "gpu-01"), 64, "--node goes with --why"),
        (("--smallest", "h200x8", "--why", "chat"), 64, "ask --smallest and --why one after the other"),
        (("--with-nodes", "4xh300x8"), 1, "no device class is known by the name h300"),
        (("--with-nodes", "1xh200x8,like=gpu-1"), 1, "did you mean gpu-01"),
        (("--drain", "gpu1"), 1, "did you mean gpu-01"),
        (("--without-node", "nothing"), 1, "there are gpu-01, gpu-02, gpu-03"),
        (("--scale", "chatt=1"), 1, "did you mean chat?"),
        (("--scale", "chat=1", "--scale", "chat=2"), 1, "chat is given two numbers of replicas"),
        (("--with-nodes", "4xh200"), 64, "does not say how many devices of which class a node has"),
        (("--drain", "gpu-01", "--uncordon", "gpu-01"), 1, "gpu-01 cannot be drained and neither cordoned nor drained"),
        (("--without-node", "gpu-01", "--drain", "gpu-01"), 1, "gpu-01 cannot be not there and drained at once"),
        (("--failures", "--failure-domain", "pol"), 1, "did you mean pool?"),
    ],
)
def test_what_is_asked_wrongly_is_told_with_how_it_is_asked(
    cards: FleetDirectory, llmgw: Call, arguments: tuple[str, ...], status: int, says: str
) -> None:
    called = llmgw("plan", "-i", cards.path, *arguments)
    assert (called.status, called.out) == (status, "")
    assert says in called.err
    assert "Traceback" not in called.err


def test_why_is_answered_in_the_fleet_as_it_is_supposed(cards: FleetDirectory, llmgw: Call) -> None:
    cards.catalog(LACKING)
    why = ("plan", "-i", cards.path, "--why", "big")
    assert llmgw(*why).status == 3
    called = llmgw(*why, "--with-nodes", "2xh200x8")
    assert called.status == 0
    assert called.out.startswith("Supposed: 2 more nodes with 8 x h200-141g each: new-1 and new-2\n    built like")
    assert "big/2" in called.out
    told = llmgw(*why, "--with-nodes", "2xh200x8", "--node", "new-1", "--json")
    assert told.err.startswith("Supposed: 2 more nodes")
    assert json.loads(told.out)["service"] == "big"


def test_it_ends_as_the_supposed_plan_would(cards: FleetDirectory, llmgw: Call) -> None:
    plan = ("plan", "-i", cards.path, "--detailed-exitcode")
    assert llmgw(*plan).status == 0
    assert llmgw(*plan, "--with-nodes", "1xh200x8").status == 0
    assert llmgw(*plan, "--scale", "chat=1").status == 2
    assert llmgw(*plan, "--scale", "chat=3").status == 3


def test_nodes_may_be_cordoned_and_brought_back_and_all_replicas_and_waves_shown(
    cards: FleetDirectory, llmgw: Call
) -> None:
    cards.store("gpu-03", replace(facts("gpu-03", 8), cordoned=True))
    question = ("plan", "-i", cards.path, "--scale", "big=3", "--cordon", "gpu-01", "--uncordon", "gpu-03")
    called = llmgw(*question, "--all", "--waves")
    assert "Supposed: gpu-01 is cordoned\n" in called.out
    assert "Supposed: gpu-03 is neither cordoned nor drained\n" in called.out
    assert "  keep  " in called.out
    assert "\n1. start " in called.out


def test_what_is_said_of_broken_facts_is_said_here_too(cards: FleetDirectory, llmgw: Call) -> None:
    cards.store("gpu-02", facts("gpu-02"))
    (cards.facts / "gpu-02.json").write_bytes(b'{"contract_version": 1, "gpus')
    assert "the facts are not whole JSON" in llmgw("plan", "-i", cards.path, "--drain", "gpu-01").err


def test_the_answer_comes_before_the_plan(cards: FleetDirectory, llmgw: Call) -> None:
    out = llmgw("plan", "-i", cards.path, "--drain", "gpu-01", "--waves").out
    order = [out.index(text) for text in ("Supposed: ", "Compared with ", "The plan as supposed:", "\nPlan: ")]
    assert order == sorted(order)


def test_single_losses_are_told_with_what_has_no_place_even_now(cards: FleetDirectory, llmgw: Call) -> None:
    called = llmgw("plan", "-i", cards.path, "--failures")
    assert (called.status, called.err) == (0, "")
    assert "! node gpu-01" in called.out
    cards.catalog(LACKING)
    lacking = llmgw("plan", "-i", cards.path, "--failures", "--failure-domain", "pool")
    assert lacking.status == 3
    assert "4 replicas have no place even now: big/2, big/3, odd/0, odd/1" in lacking.out
    assert "! pool prod: " in lacking.out
    document = json.loads(llmgw("plan", "-i", cards.path, "--failures", "--json").out)
    assert document["unplaced"] == ["big/2", "big/3", "odd/0", "odd/1"]
