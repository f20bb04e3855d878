# SPDX-License-Identifier: Apache-2.0
"""`llmgw nodes cordon` and the like, with the real playbook on this machine in the place of nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from llmgw.apply.declared import places
from llmgw.apply.moment import NAME
from llmgw.fleet import store
from llmgw.nodekit import contract
from tests.support.fleet_directory import Called, FleetDirectory
from tests.support.fleets import facts

Call = Callable[..., Called]
CARD = "GPU-6a1b2c3d-0000-1111-2222-333344445555"


@pytest.fixture
def here(directory: FleetDirectory, monkeypatch: pytest.MonkeyPatch) -> FleetDirectory:
    """The nodes n1 and n2 are this machine, each with a state directory of its own."""
    monkeypatch.setenv("LLMGW_BY", "ops@ctl1")
    nodes = "".join(f"{name}: {{llmgw_state_dir: {directory.path}/{name}}}, " for name in ("n1", "n2"))
    directory.hosts(
        "all:\n  vars: {ansible_connection: local, ansible_python_interpreter: '{{ ansible_playbook_python }}'}\n"
        f"  children: {{fleet: {{hosts: {{{nodes}}}}}}}\n"
    )
    return directory


@pytest.mark.timeout(300)
def test_a_node_is_cordoned_shown_so_and_let_in_again(here: FleetDirectory, llmgw: Call) -> None:
    called = llmgw("nodes", "cordon", "n1", "--reason", "new kernel", "-i", here.path)
    assert (called.status, called.err) == (0, "")
    first, second = called.out.splitlines()
    assert first == "n1  cordoned now"
    assert "what runs stays" in second
    mark = json.loads((here.path / "n1/cordoned").read_text())
    assert (mark["by"], mark["reason"]) == ("ops@ctl1", "new kernel")
    assert not (here.path / "n2").exists()
    shown = llmgw("nodes", "-i", here.path).out.splitlines()
    assert [line.split()[1] for line in shown[1:3]] == ["ok,cordoned", "ok"]
    page = llmgw("nodes", "n1", "-i", here.path).out
    assert re.search(r"^  cordoned  by ops@ctl1 \d+[sm] ago: new kernel$", page, re.MULTILINE)

    again = json.loads(llmgw("nodes", "cordon", "n1", "--json", "-i", here.path).out)
    (node,) = again["nodes"]
    assert (again["status"], node["cordoned"], node["error"]) == (0, True, None)
    assert [one["action"] for one in node["marks"]] == ["kept"]

    back = llmgw("-i", here.path, "nodes", "uncordon", "n1")
    assert (back.status, back.out.splitlines()[0]) == (0, "n1  its cordon mark is gone")
    assert not (here.path / "n1/cordoned").exists()


@pytest.mark.timeout(300)
def test_quarantined_devices_are_cleared_by_the_names_that_are_shown(here: FleetDirectory, llmgw: Call) -> None:
    card = replace(facts("n1", gpus=1).gpus[0], uuid=CARD)  # type: ignore[index]
    marks = (contract.QuarantinedDevice(CARD, "gpu-lost", "card 0 is gone"),)
    here.store("n1", replace(facts("n1"), gpus=(card,), quarantined=marks))
    (here.path / "n1/quarantine").mkdir(parents=True)
    for name in (CARD, "GPU-replaced"):
        (here.path / f"n1/quarantine/{name}.json").write_text(json.dumps({"message": "it is gone"}))
    called = llmgw("nodes", "clear", "n1", "0", "GPU-other", "-i", here.path)
    assert (called.status, called.err) == (0, "")
    assert [line for line in called.out.splitlines() if line.startswith("n1")] == [
        f"n1  {CARD} is no longer quarantined; it was for this: it is gone",
        "n1  GPU-other was not quarantined",
    ]
    assert [path.name for path in (here.path / "n1/quarantine").iterdir()] == ["GPU-replaced.json"]
    kept = store.load(here.facts, "n1").facts
    assert kept is not None
    assert [one.device for one in kept.quarantined or ()] == ["GPU-replaced"]
    assert llmgw("nodes", "clear", "n1", "--all", "-i", here.path).status == 0
    assert list((here.path / "n1/quarantine").iterdir()) == []


@pytest.mark.timeout(300)
def test_a_node_that_does_not_answer_is_told_with_what_works_without_it(directory: FleetDirectory, llmgw: Call) -> None:
    # A closed port of this machine refuses at once.
    directory.hosts("all:\n  vars: {ansible_host: 127.0.0.1, ansible_port: 1}\n  children: {fleet: {hosts: {n1: }}}\n")
    called = llmgw("nodes", "drain", "n1", "-i", directory.path)
    assert (called.status, called.out) == (1, "")
    assert "n1  does not answer: " in called.err
    assert "its host variable llmgw_drained: true in the inventory does the same" in called.err


@pytest.mark.parametrize("command", ["cordon", "uncordon", "drain", "undrain"])
def test_a_node_that_the_inventory_lacks_is_named_with_those_that_may_be_meant(
    command: str, directory: FleetDirectory, llmgw: Call
) -> None:
    called = llmgw("nodes", command, "n1", "n11", "-i", directory.path)
    assert (called.status, called.out) == (1, "")
    assert called.err == "llmgw: the inventory has no node n11 [unknown-host]\n    fix: did you mean n1?\n"


def test_gateway_hosts_are_no_nodes(directory: FleetDirectory, llmgw: Call) -> None:
    assert "the inventory has no node gw" in llmgw("nodes", "cordon", "gw", "-i", directory.path).err


def test_a_device_that_a_node_does_not_show_is_an_error_that_tells_what_is_quarantined(
    directory: FleetDirectory, llmgw: Call
) -> None:
    known = facts("n1", gpus=2)
    directory.store("n1", replace(known, quarantined=(contract.QuarantinedDevice("GPU-n1-1"),)))
    called = llmgw("nodes", "clear", "n1", "7", "-i", directory.path)
    assert called.status == 1
    assert "n1 shows no device '7'" in called.err
    assert "quarantined there: 1 (GPU-n1-1)" in called.err


def test_what_to_clear_must_be_said(directory: FleetDirectory, llmgw: Call) -> None:
    for words in (("n1",), ("n1", "2", "--all")):
        called = llmgw("nodes", "clear", *words, "-i", directory.path)
        assert called.status == 64
        assert "name devices (`llmgw nodes clear n3 2`), or give --all" in called.err
    assert llmgw("nodes", "cordon", "-i", directory.path).status == 64


def test_facts_that_are_kept_for_one_moment_are_of_no_host_that_could_be_marked(
    directory: FleetDirectory, llmgw: Call
) -> None:
    (directory.facts / NAME).write_text("1796000000")
    assert "facts-kept" in llmgw("nodes", "drain", "n1", "-i", directory.path).err


def test_a_node_that_is_called_like_a_command_is_shown_after_two_hyphens(
    directory: FleetDirectory, llmgw: Call
) -> None:
    directory.hosts("all: {children: {fleet: {hosts: {drain: {llmgw_address: 10.0.0.1}, n1: }}}}\n")
    assert llmgw("nodes", "--", "drain", "-i", directory.path).status == 1  # what follows are names
    shown = llmgw("nodes", "-i", directory.path, "--", "drain")
    assert (shown.status, shown.out.splitlines()[0]) == (0, "drain")
    assert llmgw("nodes", "n1", "drain", "-i", directory.path).status == 0


def test_a_command_after_options_is_told_where_it_belongs(directory: FleetDirectory, llmgw: Call) -> None:
    called = llmgw("nodes", "-i", directory.path, "cordon", "n1")
    assert called.status == 64
    assert "`cordon` comes first: llmgw nodes cordon NODE..." in called.err


def test_the_table_names_the_commands_and_each_describes_itself(llmgw: Call) -> None:
    assert "llmgw nodes cordon, uncordon, drain, undrain" in llmgw("nodes", "--help").out
    for command in ("cordon", "uncordon", "drain", "undrain", "clear"):
        assert f"llmgw nodes {command} [OPTIONS]" in llmgw("nodes", command, "--help").out


def test_where_a_variable_is_set_is_found(directory: FleetDirectory, tmp_path: Path) -> None:
    hosts = directory.path / "hosts.yml"
    for path, text in (
        ("host_vars/n1.yml", "# llmgw_cordoned: true\na: 1\nllmgw_cordoned: true\n"),
        ("host_vars/n1/more.yml", '"llmgw_cordoned": true\n'),
        ("host_vars/n11.yml", "llmgw_cordoned: true\n"),
        ("group_vars/old/x.yml", "not_llmgw_cordoned: 1\nllmgw_cordoned: true\n"),
        ("hosts.yml", "n1: {llmgw_cordoned: true}\nn2: {llmgw_cordoned_x: true}\n"),
    ):
        (directory.path / path).parent.mkdir(parents=True, exist_ok=True)
        (directory.path / path).write_text(text)
    assert [place.removeprefix(f"{tmp_path}/") for place in places(hosts, "n1", "llmgw_cordoned")] == [
        "host_vars/n1/more.yml:1",
        "host_vars/n1.yml:3",
        "hosts.yml:1",
        "group_vars/old/x.yml:2",
    ]
    assert places(hosts, "../n1", "llmgw_drained") == ()
