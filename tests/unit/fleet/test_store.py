# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from llmgw.errors import LlmgwError
from llmgw.fleet import store
from llmgw.fleet.facts import parse_facts
from llmgw.fleet.hosts import Stored
from llmgw.nodekit import contract
from tests.support.fleets import facts

OLD = replace(facts("n1"), collected_at=1.0)
NEW = replace(facts("n1", gpus=2), collected_at=2.0)


def test_facts_come_back_as_they_were_stored(tmp_path: Path) -> None:
    store.save(tmp_path, "n1", NEW)
    assert store.load(tmp_path, "n1") == Stored(NEW)


def test_a_host_that_was_never_read_has_no_facts_and_no_error(tmp_path: Path) -> None:
    assert store.load(tmp_path / "missing", "n1") == Stored()


def test_the_whole_cache_is_read_at_once_as_host_by_host(tmp_path: Path) -> None:
    assert store.load_all(tmp_path / "missing") == {}
    names = ["n1", "a/b", ".hidden", "x.json", "é"]
    for number, name in enumerate(names):
        store.save(tmp_path, name, replace(OLD, generation=number))
    store.save(tmp_path, "n1", NEW)
    store.mark_unreachable(tmp_path, "n1", 5.0, "gone")
    store.mark_unreachable(tmp_path, "never-read", 5.0, "gone")
    (tmp_path / "no host has this name.json").write_text("{}")
    (tmp_path / ".json").write_text("{}")
    (tmp_path / "x.json.json").write_text("{")
    found = store.load_all(tmp_path)
    assert sorted(found) == sorted(names)
    assert {name: one for name, one in found.items() if one.error is None} == {
        name: store.load(tmp_path, name) for name in names if name != "x.json"
    }
    assert found["x.json"].error is not None


def whole() -> bytes:
    return json.dumps(asdict(NEW)).encode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (whole()[:-1], "not whole JSON"),
        (whole()[: len(whole()) // 2], "not whole JSON"),
        (b"", "not whole JSON"),
        (bytes(range(256)) * 8, "not whole JSON"),
        (b"\xff\xfe\x00 no text at all", "not whole JSON"),
        (b"[" * 100_000, "not whole JSON"),
        (b'"a word"', "no facts of a node"),
        (b"[1, 2, 3]", "no facts of a node"),
        (b"null", "no facts of a node"),
        (b'{"all": {"hosts": ["n1"]}}', "no facts of a node"),
        (b'{"contract_version": 1, "gpus": 7}', "wrong at gpus"),
        (b'{"contract_version": 1, "memory": {"total_bytes": "much"}}', "wrong at memory.total_bytes"),
    ],
    ids=lambda value: value[:20].decode("latin-1") if isinstance(value, bytes) else None,
)
def test_unreadable_facts_are_an_error_and_the_previous_ones_stay_in_force(
    tmp_path: Path, content: bytes, says: str
) -> None:
    store.save(tmp_path, "n1", OLD)
    store.save(tmp_path, "n1", NEW)
    (tmp_path / "n1.json").write_bytes(content)
    stored = store.load(tmp_path, "n1")
    assert stored.facts == OLD
    assert stored.error is not None
    assert stored.error.code == "facts-broken"
    assert says in stored.error.why
    assert str(stored.error.where) == str(tmp_path / "n1.json")
    assert stored.error.fix is not None
    assert "llmgw facts refresh" in stored.error.fix
    assert stored.error.fix.endswith("until then the last good facts are used")


def test_unreadable_facts_without_earlier_ones_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "n1.json").write_text("{")
    stored = store.load(tmp_path, "n1")
    assert stored.facts is None
    assert stored.error is not None
    assert (stored.error.fix or "").endswith("none are stored that are older, so nothing is known of it")


def test_broken_earlier_facts_hide_nothing(tmp_path: Path) -> None:
    store.save(tmp_path, "n1", OLD)
    store.save(tmp_path, "n1", NEW)
    (tmp_path / "previous" / "n1.json").write_text("{")
    assert store.load(tmp_path, "n1") == Stored(NEW)
    (tmp_path / "n1.json").write_text("{")
    stored = store.load(tmp_path, "n1")
    assert stored.facts is None
    assert str(stored.error and stored.error.where) == str(tmp_path / "n1.json")


def test_a_directory_in_the_place_of_facts_is_an_error_of_that_host_alone(tmp_path: Path) -> None:
    (tmp_path / "n1.json").mkdir()
    store.save(tmp_path, "n2", NEW)
    error = store.load(tmp_path, "n1").error
    assert error is not None
    assert error.code == "facts-broken"
    assert store.load(tmp_path, "n2").facts == NEW


def test_what_is_broken_never_becomes_the_last_good(tmp_path: Path) -> None:
    store.save(tmp_path, "n1", OLD)
    store.save(tmp_path, "n1", NEW)
    (tmp_path / "n1.json").write_text("{")
    store.save(tmp_path, "n1", NEW)
    assert store.load(tmp_path, "n1") == Stored(NEW)
    (tmp_path / "n1.json").write_text("{")
    assert store.load(tmp_path, "n1").facts == OLD


def test_facts_of_another_version_stay_usable(tmp_path: Path) -> None:
    document = asdict(NEW) | {"contract_version": 99, "from_the_future": {"x": 1}}
    del document["weights"]
    (tmp_path / "n1.json").write_text(json.dumps(document))
    stored = store.load(tmp_path, "n1")
    assert stored.error is None
    assert stored.facts == replace(NEW, contract_version=99)


def test_the_first_failure_to_answer_is_remembered_until_the_host_answers(tmp_path: Path) -> None:
    store.save(tmp_path, "n1", OLD)
    store.mark_unreachable(tmp_path, "n1", 100.0, "no route")
    store.mark_unreachable(tmp_path, "n1", 200.0, "timed out")
    stored = store.load(tmp_path, "n1")
    assert stored == Stored(OLD, None, 100.0, "timed out", 200.0)
    store.save(tmp_path, "n1", NEW)
    assert store.load(tmp_path, "n1") == Stored(NEW)


def test_a_broken_note_of_unreachability_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "n1.unreachable").write_bytes(b"\xff{")
    assert store.load(tmp_path, "n1") == Stored()
    store.mark_unreachable(tmp_path, "n1", 5.0, "gone")
    assert store.load(tmp_path, "n1").unreachable_since == 5.0


@pytest.mark.parametrize(
    "name", ["../escape", "..", ".", "a/b", "/etc/passwd", ".hidden", "%2E%2E", "n 1\n", "knöten", "a\0b"]
)
def test_no_name_leaves_the_directory(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "facts"
    store.save(inside, name, NEW)
    store.mark_unreachable(inside, name, 1.0, "x")
    assert store.load(inside, name) == Stored(NEW, None, 1.0, "x", 1.0)
    assert [path.name for path in tmp_path.iterdir()] == ["facts"]
    made = [path.name for path in inside.iterdir() if path.is_file()]
    assert len(made) == 2
    assert not any(file.startswith(".") for file in made)


def test_names_that_look_alike_do_not_meet(tmp_path: Path) -> None:
    names = ["a/b", "a%2Fb", "a", "A", ".a", "%2Ea", "a.json", "a.unreachable", "previous"]
    for number, name in enumerate(names):
        store.save(tmp_path, name, replace(OLD, generation=number))
    for number, name in enumerate(names):
        known = store.load(tmp_path, name).facts
        assert known is not None
        assert known.generation == number


def test_a_cache_that_cannot_be_written_says_where_and_why(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("")
    with pytest.raises(LlmgwError, match=r"facts cannot be kept: .+") as saved:
        store.save(place, "n1", NEW)
    with pytest.raises(LlmgwError, match=r"facts cannot be kept: .+") as marked:
        store.mark_unreachable(place, "n1", 1.0, "x")
    for error in (saved.value, marked.value):
        assert error.code == "facts-unwritable"
        assert str(place) in str(error.where)


WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from llmgw.fleet import store
from llmgw.fleet.hosts import Stored
from tests.support.fleets import facts
made = {number: replace(facts("n1", gpus=64), generation=number) for number in range(2)}
number = 1
for at in made:
    store.save(Path(sys.argv[1]), "n1", made[at])
print("began", flush=True)
while True:
    number += 1
    store.save(Path(sys.argv[1]), "n1", made[number % 2])
"""


def test_a_writer_killed_at_any_moment_leaves_whole_facts(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for attempt in range(4):
        command = [sys.executable, "-c", WRITER, str(tmp_path)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as writer:
            try:
                assert writer.stdout is not None
                assert writer.stdout.readline() == "began\n"
                seen = [store.load(tmp_path, "n1") for _ in range(20 + 7 * attempt)]
            finally:
                writer.kill()
        assert all(one.error is None and one.facts is not None for one in seen)
        stored = store.load(tmp_path, "n1")
        assert stored.error is None
        assert stored.facts is not None
        assert stored.facts.generation in (0, 1)
        (tmp_path / "n1.json").unlink()
        (tmp_path / "n1.json").write_text("{")
        assert store.load(tmp_path, "n1").facts is not None, "the last good facts are whole too"


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(tmp_path, "n1", OLD)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LlmgwError, match="no space left on device"):
        store.save(tmp_path, "n1", NEW)
    assert store.load(tmp_path, "n1") == Stored(OLD)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n1.json", "previous"]


def test_everything_a_contract_can_say_survives_the_store(tmp_path: Path) -> None:
    rich = replace(
        NEW,
        gpus=(
            contract.Gpu(
                0,
                "GPU-a",
                ecc=contract.Ecc(enabled=True, corrected_volatile=1),
                xids=(contract.Xid(79, 1.5, "fell off the bus"),),
                mig_mode=True,
                mig_instances=(contract.MigInstance("MIG-a", 0, profile="1g.10gb", processes=()),),
                nvlink_peers=(contract.NvlinkPeer("GPU-b", 18),),
                nic_paths=(contract.NicPath("mlx5_0", "PIX"),),
                fabric=contract.GpuFabric("Completed", clique_id=1),
            ),
        ),
        imex=contract.Imex(nodes=(contract.ImexNode("10.0.0.1", "READY", local=True),), channels=(0,)),
        gateway=contract.GatewayFacts(generation=3, endpoints=(contract.EndpointHealth("chat/0@n1", "ready"),)),
        findings=(contract.Finding("x", "warn", "é\u2028\x7f", evidence=("a", "b")),),
        probes=(contract.Probe("gpu", 0.25, ok=True),),
    )
    store.save(tmp_path, "n1", rich)
    assert store.load(tmp_path, "n1").facts == rich


def test_halves_of_characters_in_facts_are_question_marks_and_cost_nothing_else(tmp_path: Path) -> None:
    strange = replace(NEW, findings=(contract.Finding("x", "warn", "a\ud800b", remedy=None, subject=None),))
    (tmp_path / "n1.json").write_text(json.dumps(asdict(strange)))
    stored = store.load(tmp_path, "n1")
    assert stored.facts is not None
    assert stored.facts.findings[0].message == "a?b"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e300", "1e999", "9" * 19, "9" * 400])
def test_a_number_that_nothing_can_have_is_unknown_and_costs_nothing_else(tmp_path: Path, number: str) -> None:
    document = json.dumps(asdict(NEW) | {"collected_at": "AT", "memory": {"total_bytes": "AT", "available_bytes": 7}})
    (tmp_path / "n1.json").write_text(document.replace('"AT"', number))
    stored = store.load(tmp_path, "n1")
    assert stored == Stored(replace(NEW, collected_at=None, memory=contract.Memory(None, 7)))


def test_an_integer_of_more_digits_than_python_reads_makes_facts_broken() -> None:
    with pytest.raises(LlmgwError, match="the facts are no JSON"):
        parse_facts(asdict(NEW) | {"contract_version": 10**5000})


def test_a_pipe_in_place_of_a_note_holds_nobody_up(tmp_path: Path) -> None:
    store.save(tmp_path, "n1", NEW)
    os.mkfifo(tmp_path / "n1.unreachable")
    assert store.load(tmp_path, "n1") == Stored(NEW)
    store.mark_unreachable(tmp_path, "n1", 5.0, "gone")
    assert store.load(tmp_path, "n1").unreachable_since == 5.0


def test_the_last_good_is_kept_where_files_cannot_have_two_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_names: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    store.save(tmp_path, "n1", OLD)
    store.save(tmp_path, "n1", NEW)
    (tmp_path / "n1.json").write_text("{")
    assert store.load(tmp_path, "n1").facts == OLD
    assert sorted(path.name for path in (tmp_path / "previous").iterdir()) == ["n1.json"]


def test_a_pipe_in_place_of_facts_is_no_facts_and_nothing_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "n1.json")
    stored = store.load(tmp_path, "n1")
    assert stored.facts is None
    assert stored.error is not None
    assert "no regular file" in stored.error.why
