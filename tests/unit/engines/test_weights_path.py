# SPDX-License-Identifier: Apache-2.0
"""Which weights an engine is given, and where it finds those that llmgw fetches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.engines.base import Launch
from llmgw.model.node import Node
from llmgw.model.replica import ModelSpec
from llmgw.nodekit import contract
from tests.support.fleets import facts, profile, with_facts
from tests.support.launches import HUB, N1, STORED, big, looking, member, seen, started

SNAPSHOT = "/srv/hf/hub/models--org--big/snapshots/abc"


def given_to(on: Node, wanted: ModelSpec = HUB) -> str:
    return started(replace(big("vllm"), model=wanted), member(0, on, 8), on=on).argv[2]


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        (looking(), "org/big"),
        (looking(seen(SNAPSHOT)), SNAPSHOT),
        (looking(seen(SNAPSHOT, complete=False)), "org/big"),
        (looking(seen(SNAPSHOT, refs=("other",))), "org/big"),
        (looking(seen("/srv/big.gguf", format="gguf")), "org/big"),
        (looking(seen("/data/org/big", model="x", layout="directory")), "/data/org/big"),
        (looking(seen(SNAPSHOT), given="org/big"), "org/big"),
        (looking(seen(SNAPSHOT), seen("/a/org/big"), given=SNAPSHOT), SNAPSHOT),
        (looking(given=SNAPSHOT, unknown=True), SNAPSHOT),
        (looking(given=SNAPSHOT), SNAPSHOT),
        (looking(seen("/a/org/big"), given=SNAPSHOT), SNAPSHOT),
        (looking(given="/srv/models/big"), "/srv/models/big"),
        (looking(given="/srv/models/other/big"), "org/big"),
        (looking(seen(SNAPSHOT, complete=False), given=SNAPSHOT), "org/big"),
        (looking(seen(SNAPSHOT, refs=("other",)), given=SNAPSHOT), "org/big"),
        (looking(seen(SNAPSHOT), given='"/srv/my hf/models--org--big/snapshots/abc"'), f"/srv/my hf/{SNAPSHOT[12:]}"),
        (looking(given=f"{SNAPSHOT} --served-model-name a /a --served-model-name"), SNAPSHOT),
        (looking(given="/srv/hf/hub/models--org--other/snapshots/abc", unknown=True), "org/big"),
    ],
)
def test_an_engine_gets_weights_that_are_there_and_keeps_what_it_was_given(on: Node, expected: str) -> None:
    assert given_to(on) == expected


@pytest.mark.parametrize(("revision", "stays"), [("c" * 40, True), ("d" * 40, False), ("v2", True), (None, True)])
def test_weights_that_are_not_seen_stay_while_they_may_be_of_the_revision(revision: str | None, *, stays: bool) -> None:
    path = f"/srv/hf/hub/models--org--big/snapshots/{'c' * 40}"
    found = given_to(looking(given=path), replace(HUB, revision=revision))
    assert (found == path) is stays


def test_a_failed_unit_is_given_weights_that_are_seen_for_those_that_are_not() -> None:
    on = failed(looking(seen("/a/org/big"), given=SNAPSHOT))
    assert given_to(on) == "/a/org/big"
    assert given_to(failed(looking(given=SNAPSHOT))) == SNAPSHOT


def failed(on: Node) -> Node:
    assert on.facts is not None
    units = tuple(replace(one, active_state="failed") for one in on.facts.units or ())
    return with_facts(on, replace(on.facts, units=units))


def test_a_file_that_was_found_stays_while_it_is_not_seen() -> None:
    text = "[Service]\nExecStart=/opt/llama-server --model /data2/x.gguf --alias chat\n"
    unit = contract.ObservedUnit("llmgw-chat.0.0.service", replica="chat/0", rank=0, text=text)
    wanted = profile("l", "llama.cpp", model=ModelSpec(HUB.name, path="x.gguf"))
    for weights in (None, (), (seen("/data2/y.gguf", model="y"),)):
        on = with_facts(N1, replace(facts("n1"), weights=weights, units=(unit,)))
        argv = started(wanted, member(0, on, 0), on=on).argv
        assert argv[argv.index("--model") + 1] == "/data2/x.gguf"


def test_a_revision_is_named_only_where_the_engine_fetches() -> None:
    fetched = started(big("vllm"), member(0, N1, 8), on=N1).argv
    assert fetched[fetched.index("--revision") + 1] == "main"
    assert "--revision" not in started(big("vllm"), member(0, N1, 8), on=looking(seen(SNAPSHOT))).argv


@pytest.mark.parametrize(
    ("path", "expected"), [("/x/y", "/x/y"), ("big", "/srv/models/big"), ("org/big", "/data/org/big")]
)
def test_a_relative_path_is_looked_for_among_the_weights(path: str, expected: str) -> None:
    on = looking(seen("/data/org/big", model="m"))
    wanted = ModelSpec(HUB.name, path=path)
    assert given_to(on if path != "big" else N1, wanted) == expected


def fetched(*weights: contract.Weights, given: str | None = None) -> Launch:
    on = looking(*weights, given=given)
    on = replace(on, settings=STORED.settings)
    return started(big("vllm", model=replace(HUB, fetch=True)), member(0, on, 8), on=on)


def test_weights_that_llmgw_fetches_are_named_by_their_id_and_found_in_the_first_model_directory() -> None:
    launch = fetched()
    assert launch.argv[2] == "org/big"
    assert launch.argv[launch.argv.index("--revision") + 1] == "main"
    assert launch.env["HF_HUB_CACHE"] == "/srv/hub"
    assert launch.env["HF_HUB_OFFLINE"] == "1"


def test_an_engine_goes_on_as_it_is_when_the_fetched_weights_are_seen() -> None:
    there = seen("/srv/hub/models--org--big/snapshots/abc")
    assert fetched(there, given="org/big") == fetched(given="org/big")


def test_fetched_weights_that_a_node_has_elsewhere_are_taken_from_there() -> None:
    launch = fetched(seen(SNAPSHOT))
    assert launch.argv[2] == SNAPSHOT
    assert launch.env == fetched().env


OLD, NEW = "/srv/old", "/srv/new"
HUB_VARIABLES = f"Environment=HF_HUB_CACHE={OLD}\nEnvironment=HF_HUB_OFFLINE=1\n"


def cache_of(on: Node, *directories: str) -> str:
    on = replace(on, settings=replace(on.settings, model_dirs=directories))
    wanted = big("vllm", model=replace(HUB, fetch=True))
    return started(wanted, member(0, on, 8), on=on).env["HF_HUB_CACHE"]


def fetched_to(*folders: str) -> tuple[contract.Weights, ...]:
    return tuple(seen(f"{folder}/models--org--big/snapshots/abc") for folder in folders)


@pytest.mark.parametrize("weights", [(), (OLD,), (OLD, NEW)])
def test_an_engine_goes_on_with_the_cache_that_it_has_when_another_directory_becomes_the_first(
    weights: tuple[str, ...],
) -> None:
    on = looking(*fetched_to(*weights), given="org/big", env=HUB_VARIABLES)
    assert cache_of(on, NEW, OLD) == OLD
    assert cache_of(on, NEW) == OLD


def test_weights_that_are_known_to_have_moved_are_taken_from_where_they_are() -> None:
    on = looking(*fetched_to(NEW), given="org/big", env=HUB_VARIABLES)
    assert cache_of(on, NEW, OLD) == NEW
    assert cache_of(on, NEW) == OLD, "nobody looked there"
    assert on.facts is not None
    cut = contract.Finding("weights-search-cut", "warning", "slow")
    assert cache_of(with_facts(on, replace(on.facts, findings=(cut,))), NEW, OLD) == OLD


def test_a_failed_unit_is_given_the_first_directory_unless_its_weights_are_seen_in_the_other() -> None:
    gone, there = (failed(looking(*fetched_to(*one), given="org/big", env=HUB_VARIABLES)) for one in ((), (OLD,)))
    assert cache_of(gone, NEW) == NEW
    assert cache_of(there, NEW, OLD) == OLD


@pytest.mark.parametrize(
    "on",
    [
        looking(given="org/other", env=HUB_VARIABLES),
        looking(given="org/big", env=HUB_VARIABLES.partition("\n")[0]),
        looking(given="org/big"),
    ],
    ids=["another model", "a cache of the operator's", "no cache"],
)
def test_a_cache_that_is_not_of_this_model_as_llmgw_fetched_it_is_not_kept(on: Node) -> None:
    assert cache_of(on, NEW, OLD) == NEW


def test_an_engine_that_fetches_itself_may_ask_the_hub() -> None:
    assert not [key for key in started(big("vllm"), member(0, N1, 8), on=N1).env if key.startswith("HF_")]
