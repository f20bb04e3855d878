# SPDX-License-Identifier: Apache-2.0
"""What is not as it was last applied, kind by kind: told from the nodes, never from a change of the catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from llmgw.decide import decide
from llmgw.model.ids import ReplicaId
from llmgw.model.node import NodeState
from llmgw.model.plan import Drift
from llmgw.model.replica import Catalog
from llmgw.nodekit import contract
from llmgw.plan.drift import drift_of
from tests.support.fleets import catalog, fleet, model, node, profile, service, with_facts
from tests.support.world import World

UNIT = "llmgw-chat.0.0.service"
Edit = Callable[[contract.ObservedUnit], contract.ObservedUnit]


def world(replicas: int = 1) -> World:
    made = World(fleet(node("n1"), node("n2")))
    made.apply(catalog(service(replicas=replicas)))
    return made


def drift(one: World, wanted: Catalog | None = None, withheld: tuple[str, ...] = ()) -> tuple[Drift, ...]:
    decision = decide(wanted or catalog(service(replicas=1)), one.fleet)
    return drift_of(one.fleet, decision.changes, tuple(map(ReplicaId, withheld)))


def edit_facts(one: World, name: str, **values: object) -> None:
    nodes = tuple(
        with_facts(each, replace(each.facts, **values)) if each.name == name and each.facts else each  # type: ignore[arg-type]
        for each in one.fleet.nodes
    )
    one.fleet = replace(one.fleet, nodes=nodes)


def settings(one: World, name: str, *model_dirs: str) -> None:
    nodes = tuple(
        replace(each, settings=replace(each.settings, model_dirs=model_dirs)) if each.name == name else each
        for each in one.fleet.nodes
    )
    one.fleet = replace(one.fleet, nodes=nodes)


def test_what_is_as_it_was_applied_has_not_drifted() -> None:
    assert drift(world()) == ()


@pytest.mark.parametrize(
    "wanted",
    [
        catalog(),
        catalog(service(replicas=3)),
        catalog(service(replicas=1, profiles=(profile(args=("--x",)),))),
        catalog(service("other", replicas=2)),
    ],
    ids=["service removed", "scaled", "argument changed", "renamed"],
)
def test_a_change_of_the_catalog_is_no_drift(wanted: Catalog) -> None:
    assert drift(world(), wanted) == ()


UNIT_DRIFTS: list[tuple[str, Edit, str]] = [
    (
        "edited",
        lambda one: replace(one, edited=True, actual_text_digest="sha256:other"),
        f"{UNIT} was edited by hand",
    ),
    ("edited", lambda one: replace(one, edited=True), f"a drop-in changes {UNIT}"),
    (
        "missing",
        lambda one: replace(one, actual_text_digest=None, text=None, text_digest=None, edited=None),
        f"the file of {UNIT} is gone, and it still runs",
    ),
    (
        "stopped",
        lambda one: replace(one, active_state="inactive", running_digest=None, reason="it does not run"),
        f"{UNIT} does not run",
    ),
    (
        "stopped",
        lambda one: replace(
            one, active_state="inactive", running_digest=None, result="success", reason="it does not run", since=60.0
        ),
        f"{UNIT} was stopped (result success) at 1970-01-01 00:01 UTC",
    ),
    (
        "stopped",
        lambda one: replace(one, active_state="inactive", running_digest=None, result="success", since=1e300),
        f"{UNIT} was stopped (result success)",
    ),
    (
        "stopped",
        lambda one: replace(
            one,
            active_state="failed",
            sub_state="failed",
            running_digest=None,
            result="oom-kill",
            restarts=3,
            reason="the kernel ended it: out of memory",
        ),
        f"{UNIT} has failed (oom-kill) after 3 restarts: the kernel ended it: out of memory",
    ),
    (
        "stopped",
        lambda one: replace(
            one,
            active_state="activating",
            sub_state="auto-restart",
            running_digest=None,
            result="exit-code",
            restarts=1,
        ),
        f"{UNIT} waits for its next restart (exit-code) after 1 restart",
    ),
    (
        "stopped",
        lambda one: replace(one, active_state="deactivating", result="success"),
        f"{UNIT} is being stopped",
    ),
    (
        "older",
        lambda one: replace(one, running_digest="sha256:old"),
        f"{UNIT} runs something older than its file: it was not restarted since that was written",
    ),
    ("reload", lambda one: replace(one, needs_reload=True), f"systemd has not read {UNIT} since it was written"),
    (
        "disabled",
        lambda one: replace(one, enabled=False),
        f"{UNIT} is not enabled: it would not start with the machine",
    ),
]


@pytest.mark.parametrize(
    ("kind", "edit", "sentence"), UNIT_DRIFTS, ids=[f"{kind}-{number}" for number, (kind, *_) in enumerate(UNIT_DRIFTS)]
)
def test_a_unit_that_is_not_as_it_was_left_is_told_and_mended(kind: str, edit: Edit, sentence: str) -> None:
    one = world()
    one.change(UNIT, edit)
    assert drift(one) == (Drift(kind, "n1", UNIT, sentence, mended=True, replica="chat/0"),)  # type: ignore[arg-type]
    one.apply(catalog(service(replicas=1)))
    assert drift(one) == ()


def test_what_is_unknown_of_a_unit_is_no_drift() -> None:
    one = world()
    one.change(
        UNIT,
        lambda unit: replace(
            unit, active_state=None, sub_state=None, enabled=None, needs_reload=None, edited=None, running_digest=None
        ),
    )
    assert drift(one) == ()


def test_what_goes_anyway_is_mended_by_going() -> None:
    one = world()
    one.change(UNIT, lambda unit: replace(unit, active_state="failed"))
    (found,) = drift(one, catalog())
    assert (found.kind, found.mended) == ("stopped", True)


@pytest.mark.parametrize("state", [NodeState.UNREACHABLE, NodeState.FROZEN])
def test_drift_on_a_node_that_is_left_alone_is_told_and_not_mended(state: NodeState) -> None:
    one = world()
    one.change(UNIT, lambda unit: replace(unit, active_state="failed"))
    one.state("n1", state)
    (found,) = drift(one)
    assert (found.kind, found.mended) == ("stopped", False)


def test_a_lost_node_has_no_drift() -> None:
    one = world()
    one.change(UNIT, lambda unit: replace(unit, active_state="failed"))
    one.state("n1", NodeState.LOST)
    assert drift(one) == ()


def test_what_is_withheld_is_not_mended_but_what_nobody_asks_for_goes() -> None:
    one = world()
    one.change(UNIT, lambda unit: replace(unit, edited=True))
    assert [found.mended for found in drift(one, withheld=("chat/0",))] == [False]
    assert [found.mended for found in drift(one, catalog(), withheld=("chat/0",))] == [True]


def test_a_second_copy_is_extra_and_is_removed() -> None:
    one = world()
    (copy,) = one.units("n1")
    edit_facts(one, "n2", units=(replace(copy, generation=0),))
    assert drift(one) == (
        Drift("extra", "n2", UNIT, f"{UNIT} is a second copy: chat/0 is on n1", mended=True, replica="chat/0"),  # type: ignore[arg-type]
    )


def test_a_unit_that_no_apply_wrote_and_nobody_asks_for_is_extra() -> None:
    one = world()
    (own,) = one.units("n1")
    copied = replace(own, name="llmgw-old.0.0.service", replica="old/0", generation=None)
    edit_facts(one, "n2", units=(copied,))
    (found,) = drift(one)
    assert (found.kind, found.node, found.subject, found.mended) == ("extra", "n2", "llmgw-old.0.0.service", True)
    assert found.message == (
        "llmgw-old.0.0.service is of no replica that the catalog asks for, and no apply is known to have written it"
    )


@pytest.mark.parametrize("replica", [None, "evil/\u00b2", "evil/" + "9" * 50, "evil", "/3"])
def test_a_unit_that_names_no_replica_is_extra_and_left_alone(replica: str | None) -> None:
    one = world()
    (own,) = one.units("n1")
    edit_facts(one, "n2", units=(replace(own, name="llmgw-odd.0.0.service", replica=replica),))
    (found,) = drift(one)
    assert (found.kind, found.message, found.mended) == ("extra", "llmgw-odd.0.0.service names no replica", False)


def test_of_what_should_not_be_there_nothing_else_is_told() -> None:
    one = world()
    (own,) = one.units("n1")
    odd = replace(own, name="llmgw-odd.0.0.service", replica=None, edited=True, enabled=False, active_state="failed")
    edit_facts(one, "n2", units=(odd,))
    assert [found.kind for found in drift(one)] == ["extra"]


def test_what_systemd_remembers_of_a_unit_without_a_file_is_extra() -> None:
    one = world()
    rest = contract.ObservedUnit("llmgw-old.0.0.service", active_state="failed", result="exit-code")
    edit_facts(one, "n2", units=(rest,))
    (found,) = drift(one)
    assert found.message == "llmgw-old.0.0.service has no file any more, and systemd remembers that it failed"
    assert (found.kind, found.mended) == ("extra", False)


def test_the_rest_of_a_unit_that_is_written_anew_is_no_drift() -> None:
    one = world()
    edit_facts(one, "n1", units=(contract.ObservedUnit(UNIT, active_state="failed"),))
    assert drift(one) == ()


def with_strangers(*processes: contract.DeviceProcess, severity: str = "block") -> World:
    one = World(fleet(node("n1", gpus=2)))
    one.apply(catalog(service(replicas=1, profiles=(profile("g", classes=("h200-141g",), gpus=1),))))
    assert one.fleet.nodes[0].facts
    cards = one.fleet.nodes[0].facts.gpus or ()
    found = contract.Finding("foreign-memory", severity, "somebody else", subject=cards[0].uuid)
    edit_facts(one, "n1", gpus=(replace(cards[0], processes=processes), *cards[1:]), findings=(found,))
    return one


def gpu_drift(one: World) -> tuple[Drift, ...]:
    return drift(one, catalog(service(replicas=1, profiles=(profile("g", classes=("h200-141g",), gpus=1),))))


def test_a_device_whose_memory_somebody_else_holds_says_who_and_how_much() -> None:
    own = contract.DeviceProcess(100, "llmgw-sim", 9000, UNIT)
    strange = contract.DeviceProcess(4711, "python3", 20480)
    unknown = contract.DeviceProcess(4712)
    (found,) = gpu_drift(with_strangers(unknown, own, strange))
    assert found == Drift(
        "foreign-device",
        "n1",  # type: ignore[arg-type]
        "0",
        "device 0 (h200-141g) has memory that llmgw does not own, beside chat/0: process 4711 (python3) with 20480 MiB,"
        " process 4712 (name unknown) with an unknown amount",
        mended=False,
        replica="chat/0",  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("processes", "severity"),
    [
        ((contract.DeviceProcess(100, "llmgw-sim", 9000, UNIT),), "block"),
        ((contract.DeviceProcess(7, "python3", 0),), "block"),
        ((contract.DeviceProcess(8, "Xorg", 200, kind="G"),), "info"),
    ],
    ids=["ours", "no memory", "a desktop"],
)
def test_own_memory_and_that_of_a_desktop_are_no_drift(
    processes: tuple[contract.DeviceProcess, ...], severity: str
) -> None:
    assert gpu_drift(with_strangers(*processes, severity=severity)) == ()


def test_an_engine_outside_llmgw_is_told_once_with_its_devices() -> None:
    one = with_strangers(contract.DeviceProcess(4711, "vllm", 20480))
    edit_facts(one, "n1", foreign_engines=(contract.ForeignEngine(4711, "vllm", ("GPU-n1-0", "GPU-gone")),))
    assert gpu_drift(one) == (
        Drift(
            "foreign-engine",
            "n1",  # type: ignore[arg-type]
            "process 4711",
            "vllm (process 4711) runs outside llmgw on device 0 (h200-141g) with 20480 MiB, device GPU-gone",
            mended=False,
        ),
    )


PATH = "/srv/models/smol.gguf"


def llama(replicas: int = 1, **more: object) -> Catalog:
    return catalog(service(replicas=replicas, profiles=(profile("l", "llama.cpp", model=replace(model(), **more)),)))  # type: ignore[arg-type]


def with_weights(*seen: contract.Weights, findings: tuple[contract.Finding, ...] = ()) -> World:
    one = World(fleet(node("n1", weights=(contract.Weights("smol", PATH),))))
    settings(one, "n1", "/srv/models")
    one.apply(llama())
    edit_facts(one, "n1", weights=seen, findings=findings)
    return one


def test_weights_that_a_node_does_not_see_any_more_are_gone() -> None:
    assert drift(with_weights(), llama()) == (
        Drift(
            "weights-gone",
            "n1",  # type: ignore[arg-type]
            "smol",
            "the weights of smol are not at /srv/models/smol.gguf any more: chat/0 could not restart",
            mended=False,
            replica="chat/0",  # type: ignore[arg-type]
        ),
    )
    assert drift(with_weights(contract.Weights("smol", PATH)), llama()) == ()


def test_weights_that_were_not_looked_for_or_may_not_have_been_seen_are_not_gone() -> None:
    for code in ("weights-search-cut", "storage-hangs"):
        assert drift(with_weights(findings=(contract.Finding(code, "warn", "cut"),)), llama()) == ()
    unknown = with_weights()
    edit_facts(unknown, "n1", weights=None)
    assert drift(unknown, llama()) == ()
    elsewhere = with_weights()
    settings(elsewhere, "n1", "/mnt/other")
    assert drift(elsewhere, llama()) == ()


@pytest.mark.parametrize(
    ("path", "seen", "kinds"),
    [
        ("/srv/models/a/b/c.gguf", (), ["weights-gone"]),
        ("/srv/models/models--a--b/snapshots/1/c/d.gguf", (), ["weights-gone"]),
        ("/srv/models/a/b/c/d.gguf", (), []),
        ("/srv/models-2/smol.gguf", (), []),
        ("/srv/models/smol", ("/srv/models/smol/one.gguf",), []),
        ("/srv/models/smol/one.gguf", ("/srv/models/smol",), []),
        ("/srv/models/smol", ("/srv/models/smol-2",), ["weights-gone"]),
    ],
)
def test_only_what_a_search_comes_by_is_gone(path: str, seen: tuple[str, ...], kinds: list[str]) -> None:
    one = World(fleet(node("n1")))
    settings(one, "n1", "/srv/models/")
    one.apply(llama(path=path))
    edit_facts(one, "n1", weights=tuple(contract.Weights("smol", where) for where in seen))
    assert [found.kind for found in drift(one, llama(path=path))] == kinds


def test_weights_of_what_is_new_or_gets_others_are_not_gone() -> None:
    fresh = World(fleet(node("n1", weights=())))
    settings(fresh, "n1", "/srv/models")
    assert drift(fresh, llama()) == ()
    assert drift(with_weights(), llama(path="/srv/models/other.gguf")) == ()


def test_a_simulator_misses_no_weights() -> None:
    one = World(fleet(node("n1", weights=())))
    settings(one, "n1", "/srv/models")
    one.apply(catalog(service(replicas=1)))
    assert drift(one) == ()


def test_drift_is_sorted_and_the_order_of_input_does_not_matter() -> None:
    one = World(fleet(node("n1"), node("n2")))
    wanted = catalog(service(replicas=4))
    one.apply(wanted)
    for name in ("n1", "n2"):
        for unit in one.units(name):
            one.change(unit.name, lambda each: replace(each, edited=True, enabled=False))
    found = drift(one, wanted)
    assert [(each.node, each.subject[6:12], each.kind) for each in found] == [
        ("n1", "chat.0", "disabled"),
        ("n1", "chat.0", "edited"),
        ("n1", "chat.2", "disabled"),
        ("n1", "chat.2", "edited"),
        ("n2", "chat.1", "disabled"),
        ("n2", "chat.1", "edited"),
        ("n2", "chat.3", "disabled"),
        ("n2", "chat.3", "edited"),
    ]
    turned = replace(one.fleet, nodes=one.fleet.nodes[::-1])
    assert drift_of(turned, decide(wanted, one.fleet).changes[::-1]) == found
