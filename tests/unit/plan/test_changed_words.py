# SPDX-License-Identifier: Apache-2.0
"""What changes in a unit, told in the words of its command line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.decide import decide
from llmgw.model.replica import ProfileSpec
from llmgw.plan.changed_words import MOST, what_changes
from tests.support.fleets import catalog, fleet, node, profile, service

HEAD = "[Service]\nExecStart=/opt/engines/sim serve"


def unit(words: str = "", lines: str = "", header: str = "") -> str:
    return f"{HEAD}{' ' + words if words else ''}\n{lines}\n[X-Llmgw]\nReplica=chat/0\n{header}"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("--itl-ms 1", "--itl-ms 2", "--itl-ms 1 -> 2"),
        ("--itl-ms=1", "--itl-ms=2", "--itl-ms 1 -> 2"),
        ("", "--max-model-len 4096", "--max-model-len 4096 added"),
        ("--eager", "", "--eager gone"),
        ("--eager", "--eager off", "--eager nothing -> off"),
        ("--seed -1", "--seed 2", "--seed -1 -> 2"),
        ("--add a --add b", "--add a --add c", "--add a, b -> a, c"),
        ("--a 1 --b 2", "--b 2 --a 1", None),
        ("m1 --a 1", "m2 --a 2", "m1 -> m2, --a 1 -> 2"),
        ("m1", "m1 m2", "the words of its command"),
        ('"--a" "x y"', '"--a" "x z"', "--a x y -> x z"),
    ],
)
def test_options_are_told_with_what_they_were_and_become(before: str, after: str, told: str | None) -> None:
    assert what_changes(unit(before), unit(after)) == told


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("Environment=FOO=1", "Environment=FOO=2", "FOO 1 -> 2"),
        ("Environment=FOO=1", "", "FOO=1 gone"),
        ("", 'Environment="FOO=a b"', "FOO=a b added"),
        ("Environment=LLMGW_PROCESS_DIGEST=a", "Environment=LLMGW_PROCESS_DIGEST=b", None),
        ("MemoryMin=1", "MemoryMin=2", "MemoryMin 1 -> 2"),
        ("User=a\nDescription=x", "User=b\nDescription=y", "User a -> b"),
    ],
)
def test_variables_and_settings_are_told(before: str, after: str, told: str | None) -> None:
    assert what_changes(unit("", before), unit("", after)) == told


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("EngineVersion=0.32", "EngineVersion=0.33", "engine 0.32 -> 0.33"),
        ("Engine=vllm\nEngineVersion=1", "Engine=sim\nEngineVersion=2", "engine vllm -> sim"),
        ("Devices=GPU-a", "Devices=GPU-a GPU-b", "1 -> 2 devices"),
        ("Devices=GPU-a", "Devices=GPU-b", "other devices"),
        ("Devices=GPU-a GPU-b", "Devices=GPU-b GPU-a", "its devices in another order"),
        ("Port=1", "Port=2", None),
    ],
)
def test_engine_and_devices_are_told_by_the_header(before: str, after: str, told: str | None) -> None:
    assert what_changes(unit(header=before), unit(header=after)) == told


def test_of_another_engine_the_program_is_not_told_too() -> None:
    after = unit("--a 1", header="EngineVersion=0.33").replace("/opt/engines/sim", "/opt/engines/sim-0.33")
    assert what_changes(unit(header="EngineVersion=0.32"), after) == "engine 0.32 -> 0.33, --a 1 added"
    moved = unit().replace("/opt/engines/sim", "/srv/sim")
    assert what_changes(unit(), moved) == "/opt/engines/sim -> /srv/sim"


def test_what_is_very_much_is_counted_and_what_is_long_is_cut() -> None:
    before = unit(" ".join(f"--option-{number} 1" for number in range(30)))
    told = what_changes(before, before.replace(" 1", " 2"))
    assert told is not None
    assert len(told) <= MOST
    assert told.startswith("--option-0 1 -> 2, --option-1 1 -> 2, ")
    assert told.endswith(", and 26 more")
    long = "x" * 300
    assert what_changes(unit(), unit(f"--a {long}")) == f"--a {'x' * 37}... added"
    assert what_changes(unit(f"--a {long}"), unit(f"--a {long}y")) == "--a changes"


def test_units_that_llmgw_renders_are_told_by_what_the_catalog_changed() -> None:
    def text(one: ProfileSpec) -> str:
        return decide(catalog(service(replicas=1, profiles=(one,))), fleet(node("n1"))).units[0].text

    before, after = text(profile(args=("--a", "1"))), text(profile(args=("--a", "2", "--b")))
    assert what_changes(before, after) == "--a 1 -> 2, --b added"
    assert what_changes(before, before) is None
    assert what_changes(text(profile()), text(replace(profile(), args=("--c",)))) == "--c added"


@pytest.mark.parametrize("text", ["", "no unit", "[Service]\nExecStart=\n", 'ExecStart="open\nEnvironment=A B=\n'])
def test_what_llmgw_did_not_write_is_compared_as_far_as_it_goes(text: str) -> None:
    assert what_changes(text, text) is None
    what_changes(text, unit("--a"))
    what_changes(unit("--a"), text)
