# SPDX-License-Identifier: Apache-2.0
"""`llmgw plan --why`: text for people in golden files, JSON for tools, and what is said of names that there are not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmgw.cli.why import why
from llmgw.decide import Options
from llmgw.errors import LlmgwError
from llmgw.model.node import FleetSnapshot, Node
from llmgw.model.replica import Catalog, RolloutSpec
from llmgw.nodekit import contract
from tests.support import golden
from tests.support.fleet_directory import CATALOG, Called, FleetDirectory
from tests.support.fleets import GB, catalog, fleet, node, profile, service
from tests.support.world import World

Call = Callable[..., Called]
GOLDEN = Path(__file__).parent / "why"
H200, L40S = "h200-141g", "l40s-45g"


def _nodes() -> list[Node]:
    """Twelve GPU nodes of which most are full, one is cordoned, one has a stranger on a card; two have other cards."""
    nodes = [
        node(f"gpu-{number:02}", 8, 1000, labels={"pool": "prod" if number < 9 else "dev"}, cordoned=number == 3)
        for number in range(12)
    ]
    held = contract.Finding(
        "foreign-memory", "block", "process 4711 (python3) holds 20480 MiB", "Stop it.", "GPU-gpu-05-0"
    )
    nodes[5] = node("gpu-05", 8, 1000, labels={"pool": "prod"}, findings=(held,))
    nodes += [node(f"l40s-{number}", 4, 256, device_class=L40S, labels={"pool": "prod"}) for number in (1, 2)]
    return nodes


def _running() -> tuple[Catalog, FleetSnapshot]:
    """A service on most cards, and one that asks for more than is left."""
    small = profile("batch-h200", classes=(H200,), gpus=2, tensor_parallel=2, min_memory_bytes=100 * GB)
    large = profile(
        "chat-h200",
        classes=(H200,),
        gpus=8,
        tensor_parallel=8,
        min_memory_bytes=400 * GB,
        node_selector={"pool": "prod"},
    )
    world = World(fleet(*_nodes()))
    batch = service("batch", 38, (small,))
    world.apply(catalog(batch))
    return catalog(batch, service("chat", 3, (large,), served_name="org/chat-large")), world.fleet


CASES: dict[str, tuple[str, list[str] | None]] = {
    "service-without-places": ("chat", None),
    "replica-without-a-place": ("chat/1", None),
    "one-node": ("chat", ["gpu-05"]),
    "replica-that-stays": ("batch/3", None),
    "service-that-runs": ("batch", None),
    "two-nodes": ("batch/3", ["gpu-03", "l40s-1"]),
}


def test_answers_in_text_are_the_golden_ones(capsys: pytest.CaptureFixture[str], *, update_golden: bool) -> None:
    wanted, seen = _running()
    produced = {}
    for name, (question, nodes) in CASES.items():
        status = why(wanted, seen, question, nodes, Options(), as_json=False)
        text = capsys.readouterr().out
        assert status == (3 if question.startswith("chat") else 0)
        asked = " ".join(["$ llmgw plan --why", question, *(f"--node {one}" for one in nodes or ())])
        produced[f"{name}.txt"] = f"{asked}\n{text}"
    golden.compare(GOLDEN, produced, update=update_golden)


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_no_line_is_wider_than_the_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    wanted, seen = _running()
    for question, nodes in CASES.values():
        why(wanted, seen, question, nodes, Options(), as_json=False)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= columns


def test_that_a_rollout_is_refused_comes_first_with_its_reason_and_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def chat(words: tuple[str, ...] = ()) -> Catalog:
        one = profile("small", gpus=1, classes=(L40S,), args=words)
        return catalog(service("chat", 1, (one,), rollout=RolloutSpec(max_unavailable=0)), service("other", 1))

    world = World(fleet(node("n1", 1, device_class=L40S)))
    world.apply(chat())
    assert why(chat(), world.fleet, "chat", None, Options(), as_json=False) == 0
    assert capsys.readouterr().out.startswith("The one replica of chat has a place.\n")
    assert why(chat(("--x",)), world.fleet, "chat", None, Options(), as_json=False) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("A change of chat waits: it cannot be rolled out, since ")
    told = lines.index("")
    assert any(line.startswith("    fix: ") for line in lines[:told])
    assert lines[told + 1] == "The one replica of chat has a place."
    assert why(chat(("--x",)), world.fleet, "chat/0", None, Options(), as_json=True) == 3
    assert json.loads(capsys.readouterr().out)["refused_rollout"]["reason"]
    assert why(chat(("--x",)), world.fleet, "other", None, Options(), as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["refused_rollout"] is None


def _document(question: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    wanted, seen = _running()
    why(wanted, seen, question, None, Options(), as_json=True)
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_json_has_every_node_and_every_step_with_its_amounts(capsys: pytest.CaptureFixture[str]) -> None:
    document = _document("chat", capsys)
    assert document["format_version"] == 1
    assert (document["service"], document["replica"], document["subject"]) == ("chat", None, "chat/0")
    assert len(document["nodes"]) == 14
    assert {one["fits"] for one in document["nodes"]} == {False}
    for one in document["nodes"]:
        assert all({"constraint", "message", "has", "needs", "unit"} <= set(check) for check in one["failing"])
    first = document["relaxations"][0]
    assert (first["kind"], first["cost"], first["nodes"]) == ("uncordon", "setting", ["gpu-03"])
    assert first["steps"][0]["values"] == {"llmgw_cordoned": False}
    fewer = document["relaxations"][1]["steps"][0]
    assert (fewer["entry"], fewer["has"], fewer["needs"]) == ("profiles.chat-h200", 2, 8)


def test_json_of_what_runs_has_its_score(capsys: pytest.CaptureFixture[str]) -> None:
    document = _document("batch/3", capsys)
    assert document["replicas"][0]["state"] == "kept"
    chosen = next(one for one in document["nodes"] if one["chosen"])
    assert chosen["total"] == pytest.approx(sum(term["value"] * term["weight"] for term in chosen["score"]))


@pytest.mark.parametrize(
    ("question", "nodes", "says", "fix"),
    [
        ("chta", None, "the catalog has no service chta", "did you mean chat?"),
        ("chat/9", None, "chat has no replica 9", "it has chat/0, chat/1, chat/2"),
        ("chat/x", None, "--why asks for a service or one of its replicas, not for 'chat/x'", "such as chat/0"),
        ("", None, "the catalog has no service with an empty name", "there are batch, chat"),
        ("/1", None, "the catalog has no service with an empty name", "there are batch, chat"),
        ("chat", ["gpu-5"], "the inventory has no node gpu-5", "did you mean gpu-05"),
    ],
)
def test_a_name_that_there_is_not_is_told_with_those_that_may_be_meant(
    question: str, nodes: list[str] | None, says: str, fix: str
) -> None:
    wanted, seen = _running()
    with pytest.raises(LlmgwError) as caught:
        why(wanted, seen, question, nodes, Options(), as_json=False)
    assert caught.value.why == says
    assert fix in (caught.value.fix or "")


def test_a_replica_that_is_stopped_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    wanted, seen = _running()
    fewer = replace(wanted, services=tuple(replace(one, replicas=4) for one in wanted.services))
    assert why(fewer, seen, "batch/30", None, Options(), as_json=False) == 0
    assert capsys.readouterr().out == "batch/30 runs on gpu-08; the catalog asks for 4 of batch, so apply stops it.\n"


def test_what_runs_and_the_catalog_does_not_have_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    wanted, seen = _running()
    without = replace(wanted, services=tuple(one for one in wanted.services if one.name != "batch"))
    assert why(without, seen, "batch", None, Options(), as_json=False) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[:2] == [
        "The catalog has no service batch.",
        "  batch/0 runs on gpu-05; the catalog has no service batch, so apply stops it.",
    ]
    why(without, seen, "batch/1", None, Options(), as_json=True)
    assert json.loads(capsys.readouterr().out)["replicas"][0]["state"] == "stops"


def test_one_replica_of_several_has_no_place_in_the_singular(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = catalog(service(replicas=3, profiles=(profile(min_memory_bytes=40 * GB),)))
    why(wanted, fleet(node("n1"), node("n2")), "chat", None, Options(), as_json=False)
    assert capsys.readouterr().out.startswith("1 of 3 replicas of chat has no place.\n")


def test_nodes_with_other_hardware_are_one_line_and_the_last_and_hardware_is_offered_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    nodes = [*(node(f"l{number}", 4, device_class=L40S) for number in range(5)), node("c1"), node("h1", 2)]
    wanted = catalog(service(replicas=1, profiles=(profile(classes=(H200,), gpus=8, tensor_parallel=8),)))
    why(wanted, fleet(*nodes), "chat", None, Options(), as_json=False)
    told = capsys.readouterr().out
    assert [line.split("  ")[-1].strip() for line in told.splitlines()[-2:]] == [
        "has 2 free of 2 h200-141g, needs 8",
        "have other hardware: l40s-45g or no device",
    ]
    before, _, _ = told.partition("\n\nWhat the nodes say")
    assert before.endswith("How many more nodes would do: `llmgw plan --smallest h200-141gx8`.")


def test_what_is_wrong_with_the_profile_is_said_once_for_all_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = profile(classes=(H200,), gpus=4, tensor_parallel=3)
    seen = fleet(node("n1", 8), node("n2", 8, cordoned=True))
    assert why(catalog(service(replicas=1, profiles=(wrong,))), seen, "chat", None, Options(), as_json=False) == 3
    told = capsys.readouterr().out
    assert "set tensor_parallel to 4 or gpus to 3" in told
    assert "--smallest" not in told
    assert told.partition("What the nodes say")[2].count("tensor_parallel 3") == 1


def test_of_too_many_different_answers_the_farthest_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [node(f"n{number:02}", memory_gb=number + 1) for number in range(20)]
    wanted = catalog(service(replicas=1, profiles=(profile(min_memory_bytes=96 * GB),)))
    why(wanted, fleet(*nodes), "chat", None, Options(), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    rows = lines[next(at for at, line in enumerate(lines) if line.startswith("What the nodes say")) + 1 :]
    assert rows[0] == "  n19           has 20 GB of memory, needs 96"
    assert rows[-1] == "  4 more nodes  for memory: `--node NAME` and --json tell it all"


def test_the_name_that_clients_use_is_understood(capsys: pytest.CaptureFixture[str]) -> None:
    wanted, seen = _running()
    served = replace(wanted, services=tuple(replace(one, served_name=f"{one.name}-served") for one in wanted.services))
    why(served, seen, "chat-served", None, Options(), as_json=False)
    assert "No replica of chat has a place" in capsys.readouterr().out


def test_the_command_answers_from_stored_facts(directory: FleetDirectory, llmgw: Call) -> None:
    called = llmgw("plan", "-i", directory.path, "--why", "chat/0")
    assert (called.status, called.err) == (0, "")
    assert called.out.startswith("chat/0 goes to n1 (profile cpu).\n\nchat/0 on n1 scores ")
    directory.catalog(CATALOG.replace("devices: cpu", "devices: h200-141g"))
    called = llmgw("plan", "-i", directory.path, "--why", "chat", "--node", "n1")
    assert called.status == 3
    assert "needs h200-141g, has no device" in called.out
    called = llmgw("plan", "-i", directory.path, "--why", "chta")
    assert (called.status, called.out) == (1, "")
    assert "did you mean chat?" in called.err


def test_a_replica_is_meant_where_clients_call_another_service_so(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = catalog(service("chat", 1), service("other", 1, served_name="chat/0"))
    seen = World(fleet(node("n1"))).fleet
    why(wanted, seen, "chat/0", None, Options(), as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert answer["service"] == "chat"
    assert [one["replica"] for one in answer["replicas"]] == ["chat/0"]


def test_a_closed_output_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    assert why(catalog(service("chat", 1)), World(fleet(node("n1"))).fleet, "chat", None, Options(), as_json=False) == 0
