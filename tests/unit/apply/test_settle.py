# SPDX-License-Identifier: Apache-2.0
"""Applies that fail because a host falls silent in the middle: what gateways are told after that, and by the next."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from llmgw.apply import actions, verdict
from llmgw.catalog.load import load_catalog
from llmgw.decide import Options, decide
from llmgw.fleet import store
from llmgw.fleet.hosts import Host
from llmgw.nodekit import contract
from llmgw.routes.codec import load_bundle
from tests.support.fleets import facts, fleet, node
from tests.support.world import World, told_endpoints

NOW = 2000.0
NAMES = ("n1", "n2", "n3")
HOSTS = (
    Host("gw", node=False, gateway=True),
    *(
        Host(name, node=True, gateway=False, variables={"llmgw_address": f"10.0.0.{number}"})
        for number, name in enumerate(NAMES, 1)
    ),
)
CUT: dict[str, Any] = {"unreachable": True, "msg": "no route"}
DONE: dict[str, Any] = {"changed": True, "units": []}
Json = dict[str, Any]


class Site:
    """Three nodes that serve `chat` and a gateway, all known by their facts on disk, and one apply at a time."""

    def __init__(self, folder: Path, replicas: int = 3) -> None:
        self.folder = folder
        self.now = NOW
        self.want(replicas)
        hosts = (replace(node(name), address=f"10.0.0.{number}") for number, name in enumerate(NAMES, 1))
        self.world = World(fleet(*hosts))
        self.world.apply(load_catalog(folder / "catalog.yaml"))
        self.answers()

    def want(self, replicas: int, *, args: str = "") -> None:
        """Another catalog."""
        (self.folder / "catalog.yaml").write_text(
            f"""\
version: 1
models: {{smol: {{path: /srv/models/smol.gguf}}}}
profiles: {{cpu: {{engine: sim, model: smol, devices: cpu{args and f", args: [{args}]"}}}}}
services: {{chat: {{profiles: cpu, replicas: {replicas}}}}}
""",
            encoding="utf-8",
        )

    def answers(self, *silent: str) -> list[str]:
        """A look at all hosts, of which some do not answer; returns those that do."""
        told = {
            str(one.name): {
                "ansible_facts": json.loads(json.dumps({"llmgw": asdict(replace(one.facts, collected_at=self.now))}))
            }
            for one in self.world.fleet.nodes
            if one.facts is not None
        }
        answers = told | dict.fromkeys(silent, CUT)
        return list(actions.keep_facts(self.folder / "facts", answers, self.now)["stored"])

    def gateway_tells(self, bundle: Any, digest: str) -> None:
        """What the gateway says of itself once it goes by a bundle."""
        endpoints = tuple(
            contract.EndpointHealth(one.id, "draining" if one.draining else "ready")
            for route in bundle.routes.routes
            for one in route.endpoints
        )
        published = contract.PublishedBundle("/b.json", bundle.generation, digest)
        told = contract.GatewayFacts(
            reachable=True, generation=bundle.generation, endpoints=endpoints, bundle=published
        )
        store.save(self.folder / "facts", "gw", facts("gw", gateway=told, collected_at=self.now))

    def request(self, **more: Any) -> actions.Request:
        whole: Json = {
            "catalog": self.folder / "catalog.yaml",
            "facts": self.folder / "facts",
            "hosts": HOSTS,
            "now": self.now,
            "in_play": frozenset({"gw", *NAMES}),
        }
        return actions.Request(**whole | more)

    def plan(self) -> Json:
        return actions.make_plan(self.request(), self.folder / "bulk")

    def failed(self, plan: Json, silent: str) -> Json:
        """What is known once the first step that changes units of that host got no answer from it."""
        known: Json = dict(verdict.BEGIN)
        for step in plan["steps"]:
            known = verdict.follow(known, step, {one: CUT if one == silent else DONE for one in step["hosts"]})
            if known["failure"]:
                return known
        raise AssertionError(plan["steps"])

    def settle(self, known: Json, answered: Collection[str]) -> tuple[dict[str, bool], list[str]]:
        """The endpoints that gateways name, and whether they drain; and what people are told."""
        asked = self.request(taken=known["taken"], answered=frozenset(answered))
        made = actions.settle(asked, self.folder / "settled")
        (step,) = made["steps"]
        return self.published(step), made["lines"]

    def published(self, step: Json) -> dict[str, bool]:
        routes, rest = (Path(step[key]).read_text(encoding="utf-8") for key in ("path", "rest_path"))
        bundle = load_bundle(f"{routes[:-1]},{rest[1:]}".encode())
        self.gateway_tells(bundle, step["routes_digest"])
        return {one.id: one.draining for route in bundle.routes.routes for one in route.endpoints}

    def edit(self, name: str, **values: Any) -> None:
        self.world.change(name, lambda unit: replace(unit, **values))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


SERVE = {"chat/0@n1": False, "chat/1@n2": False, "chat/2@n3": False}
SURPLUS = SERVE | {"chat/2@n3": True}


def test_a_surplus_replica_whose_node_froze_in_its_stop_gets_no_request_again(site: Site) -> None:
    site.want(2)
    known = site.failed(site.plan(), "n3")
    named, told = site.settle(known, site.answers("n3"))
    assert named == SURPLUS
    assert told == [
        (
            "Kept out of rotation: chat/2@n3. It was to be stopped or replaced, and nobody knows how that ended. "
            "Apply again once its host answers."
        )
    ]


def test_a_replica_whose_node_froze_in_its_update_gets_no_request_again(site: Site) -> None:
    site.want(3, args="--x")
    known = site.failed(site.plan(), "n1")
    named, _told = site.settle(known, site.answers("n1"))
    assert named == SERVE | {"chat/0@n1": True}


def test_where_the_host_ended_its_step_and_answers_what_runs_is_routed_to(site: Site) -> None:
    site.want(3, args="--x")
    plan = site.plan()
    known: Json = dict(verdict.BEGIN)
    for step in plan["steps"]:
        answer = {"failed": True, "msg": "not ready; the previous version was put back", "units": []}
        known = verdict.follow(known, step, dict.fromkeys(step["hosts"], DONE if step["kind"] == "publish" else answer))
    assert known["taken"].keys() == {"chat/0@n1"}
    assert site.settle(known, site.answers()) == (SERVE, [])


def test_a_host_that_answers_again_is_believed_only_once_the_step_has_done_its_work(site: Site) -> None:
    site.want(2)
    known = site.failed(site.plan(), "n3")
    assert site.settle(known, site.answers())[0] == SURPLUS, "it still runs: what was to stop it may be about to"
    site.edit("llmgw-chat.2.0.service", active_state="deactivating", sub_state="stop-sigterm")
    assert site.settle(known, site.answers()) == ({"chat/0@n1": False, "chat/1@n2": False}, [])


def test_a_host_that_answers_again_with_the_new_process_is_routed_to(site: Site) -> None:
    site.want(3, args="--x")
    plan = site.plan()
    known = site.failed(plan, "n1")
    assert site.settle(known, site.answers())[0]["chat/0@n1"], "the old process runs, and may be about to end"
    coming = known["taken"]["chat/0@n1"]["process"]
    site.edit("llmgw-chat.0.0.service", active_state="activating", running_digest=coming, process_digest=coming)
    assert site.settle(known, site.answers()) == (SERVE, [])


def test_facts_that_were_read_before_the_failure_are_no_answer_whatever_the_reason(site: Site) -> None:
    site.want(2)
    plan = site.plan()
    known: Json = dict(verdict.BEGIN)
    for step in plan["steps"]:
        known = verdict.follow(known, step, dict.fromkeys(step["hosts"], DONE))
    assert site.settle(known, [])[0] == SURPLUS, "the look itself failed"


def test_a_run_that_only_drained_leaves_what_serves(site: Site) -> None:
    site.want(2)
    drain = site.plan()["steps"][0]
    short = {"failed": True, "msg": "too few of the others are ready"}
    known = verdict.follow(verdict.BEGIN, drain, {"gw": short})
    assert known["failure"]
    assert site.settle(known, site.answers("n3")) == (SERVE, [])


@pytest.mark.parametrize("replicas", [2, 3])
def test_the_next_apply_leaves_it_so_while_the_node_is_silent_and_mends_it_once_it_answers(
    site: Site, replicas: int
) -> None:
    site.want(replicas, args="--x" if replicas == 3 else "")
    silent = "n3" if replicas == 2 else "n1"
    drained = "chat/2@n3" if replicas == 2 else "chat/0@n1"
    known = site.failed(site.plan(), silent)
    site.settle(known, site.answers(silent))
    site.now += 60
    site.answers(silent)
    for step in site.plan()["steps"]:
        if step["kind"] == "publish":
            assert site.published(step).get(drained, True), "it is drained, or named no more"
    site.now += 60
    site.answers()
    assert site.plan()["changes"]
    wanted = load_catalog(site.folder / "catalog.yaml")
    site.world.apply(wanted)
    assert sorted(site.world.routed("chat")) == sorted(site.world.running("chat"))
    assert len(site.world.running("chat")) == replicas
    assert not decide(wanted, site.world.fleet, Options()).plan.changes


def test_capacity_comes_back_by_a_plan_that_only_publishes_where_nothing_was_begun_after_all(site: Site) -> None:
    site.want(3, args="--x")
    known = site.failed(site.plan(), "n1")
    site.settle(known, site.answers("n1"))
    site.want(3)  # the operator takes it back
    site.answers("n1")
    assert not site.plan()["changes"]
    site.answers()
    (step,) = site.plan()["steps"]
    assert step["kind"] == "publish"
    assert site.published(step) == SERVE
    assert not site.plan()["changes"]


def test_a_node_that_stays_away_is_named_again_so_that_gateways_can_tell_whether_it_is_lost(site: Site) -> None:
    site.want(3, args="--x")
    known = site.failed(site.plan(), "n1")
    site.settle(known, site.answers("n1"))
    site.now += 300
    site.answers("n1")
    publishes = [step for step in site.plan()["steps"] if step["kind"] == "publish"]
    assert not site.published(publishes[-1])["chat/0@n1"]


def forget_units(site: Site, name: str, bundle: contract.PublishedBundle) -> list[str]:
    """The node answers and cannot tell its units; the gateway goes by this bundle. Returns who answered."""
    told = contract.GatewayFacts(reachable=True, bundle=bundle)
    store.save(site.folder / "facts", "gw", facts("gw", gateway=told, collected_at=site.now))
    answered = site.answers()
    store.save(site.folder / "facts", name, facts(name, units=None, generation=1, collected_at=site.now))
    return answered


def test_a_node_whose_units_cannot_be_read_after_the_failure_stays_in_the_routes(site: Site) -> None:
    known = verdict.BEGIN
    assert site.world.routes is not None
    bundle = contract.PublishedBundle("/b.json", 1, "sha256:x", endpoints=told_endpoints(site.world.routes))
    assert site.settle(dict(known), forget_units(site, "n1", bundle)) == (SERVE, [])


def test_where_nobody_tells_the_routes_every_gateway_keeps_those_that_it_has(site: Site) -> None:
    answered = forget_units(site, "n1", contract.PublishedBundle("/b.json"))
    made = actions.settle(site.request(answered=frozenset(answered)), site.folder / "settled")
    (step,) = made["steps"]
    assert step["hosts"] == []
    (line,) = made["lines"]
    assert line.startswith("The gateways keep the routes that they have")
    assert "the units of n1 cannot be seen" in line
