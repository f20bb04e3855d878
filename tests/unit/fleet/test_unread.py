# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

import pytest

from llmgw.apply.inputs import find_paths, inputs_of, read_inputs
from llmgw.cli.main import run
from llmgw.fleet.hosts import VARIABLES, Host
from llmgw.fleet.inventory import read_inventory
from llmgw.fleet.unread import ROLE_VARIABLES, RUN_VARIABLES, unread, unread_problems
from tests.support.fleet_directory import FleetDirectory
from tests.support.fleets import catalog

ROOT = Path(__file__).parents[3]
HOSTS = """\
all:
  children:
    fleet:
      hosts:
        n1: {llmgw_draind: true, llmgw_labels: {rack: r1}}
        n2: {llmgw_draind: SECRET, llmgw_colour: red, other: 1}
    gateway:
      hosts:
        gw:
"""


def test_a_misspelled_variable_is_told_with_its_hosts_and_the_name_that_is_meant(tmp_path: Path) -> None:
    directory = FleetDirectory(tmp_path)
    directory.hosts(HOSTS)
    colour, drained = map(str, read_inputs(find_paths(tmp_path), 2000.0).problems)
    assert drained == (
        "llmgw_draind of n1, n2 is read by nothing [inventory-variable]\n    fix: did you mean llmgw_drained?"
    )
    assert colour.startswith("llmgw_colour of n2 is read by nothing [inventory-variable]\n    fix: mend its name")


def test_the_value_of_a_variable_that_nothing_reads_is_never_kept(tmp_path: Path) -> None:
    directory = FleetDirectory(tmp_path)
    directory.hosts(HOSTS)
    assert "SECRET" not in repr(read_inventory(tmp_path / "hosts.yml"))


def test_many_hosts_are_named_by_the_first_few() -> None:
    hosts = [Host(f"n{number}", node=True, gateway=False, unread=("llmgw_model_dir",)) for number in range(1, 8)]
    (problem,) = unread_problems(reversed(hosts))
    assert problem.why == "llmgw_model_dir of n1, n2, n3 and 4 more is read by nothing"
    assert problem.fix == "did you mean llmgw_model_dirs?"


def test_it_changes_no_digest(tmp_path: Path) -> None:
    plain, odd = (Host("n1", node=True, gateway=False, unread=names) for names in ((), ("llmgw_x",)))
    first, second = (inputs_of(catalog(), (one,), tmp_path, 2000.0) for one in (plain, odd))
    assert first.digests == second.digests


@pytest.mark.parametrize("command", [["plan"], ["diff"], ["nodes"], ["facts", "show"]])
def test_every_command_that_reads_the_inventory_tells_it(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = FleetDirectory(tmp_path)
    directory.hosts(HOSTS)
    run([*command, "-i", str(tmp_path)])
    assert "did you mean llmgw_drained?" in capsys.readouterr().err


def test_what_roles_and_playbooks_read_is_known_and_documented() -> None:
    folder = ROOT / "collections/ansible_collections/llmgw/fleet"
    files = [
        *folder.glob("roles/*/*/*.yml"),
        *folder.glob("roles/*/templates/*service.j2"),
        *folder.glob("playbooks/*"),
    ]
    texts = [path.read_text(encoding="utf-8") for path in files if path.is_file()]
    read = {name for text in texts for name in re.findall(r"llmgw_[a-z0-9_]+", text)} - {"llmgw_sim", "llmgw_touched"}
    assert len(read) > 20
    assert not unread(read)
    page = (ROOT / "docs/reference/host-variables.md").read_text(encoding="utf-8")
    assert {*VARIABLES, *ROLE_VARIABLES} - set(re.findall(r"`((?:llmgw|ansible)_[a-z0-9_]+)`", page)) == set()
    assert not unread(RUN_VARIABLES)


def test_names_of_others_are_nobodys_business() -> None:
    assert unread(["ansible_user", "my_llmgw_drained", "llmgw_drained", "llmgw_gather"]) == ()
