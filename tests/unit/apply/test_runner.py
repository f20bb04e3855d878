# SPDX-License-Identifier: Apache-2.0
"""How a playbook is run; whole runs are tried in tests/systemd and tests/fleet."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from llmgw.apply import runner
from llmgw.apply.inputs import Paths
from llmgw.apply.runner import Run, collections_root

PATHS = Paths(Path("hosts.yml"), Path("catalog.yaml"), Path("facts"))


def environment(monkeypatch: pytest.MonkeyPatch, folder: Path, **variables: str) -> dict[str, str]:
    monkeypatch.chdir(folder)
    for name in ("ANSIBLE_CONFIG", "ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return runner._environment(folder)


def test_our_own_collection_is_ahead_of_every_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = collections_root()
    assert (root / "ansible_collections" / "llmgw" / "fleet" / "galaxy.yml").exists()
    assert environment(monkeypatch, tmp_path)["ANSIBLE_COLLECTIONS_PATH"] == str(root)
    found = environment(monkeypatch, tmp_path, ANSIBLE_COLLECTIONS_PATH="/site/collections")
    assert found["ANSIBLE_COLLECTIONS_PATH"] == f"{root}:/site/collections"


def test_keep_alives_are_set_unless_the_operator_has_a_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "ServerAliveInterval" in environment(monkeypatch, tmp_path)["ANSIBLE_SSH_ARGS"]
    assert "ANSIBLE_TIMEOUT" not in environment(monkeypatch, tmp_path, ANSIBLE_TIMEOUT="99")
    assert "ANSIBLE_SSH_ARGS" not in environment(monkeypatch, tmp_path, ANSIBLE_CONFIG="/etc/my.cfg")
    (tmp_path / "ansible.cfg").write_text("[defaults]\n")
    assert "ANSIBLE_SSH_ARGS" not in environment(monkeypatch, tmp_path)


@pytest.mark.parametrize("limit", ["n1", "n1,n2:!n3", "rack a", "it's", "$(reboot)", "-i /etc"])
def test_switches_reach_ansible_as_they_are(limit: str) -> None:
    switches = runner._switches(Run("llmgw.fleet.apply", PATHS, check=True, diff=True, limit=limit))
    assert shlex.split(" ".join(switches)) == ["--check", "--diff", f"--limit={limit}"]
    assert runner._switches(Run("llmgw.fleet.apply", PATHS)) == []


SHOW_HOST_KEYS = """\
- hosts: all
  gather_facts: false
  connection: local
  tasks:
    - ansible.builtin.debug:
        msg: "{{ lookup('ansible.builtin.config', 'HOST_KEY_CHECKING') }}"
"""


@pytest.mark.parametrize(("configured", "checked"), [("", True), ("[defaults]\nhost_key_checking = false\n", False)])
def test_host_keys_are_checked_as_ansible_is_configured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, configured: str, checked: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ANSIBLE_HOST_KEY_CHECKING", raising=False)
    (tmp_path / "ansible.cfg").write_text(configured)
    (tmp_path / "hosts.yml").write_text("all: {hosts: {here: }}\n")
    (tmp_path / "show.yml").write_text(SHOW_HOST_KEYS)
    said: list[object] = []

    def see(event: dict[str, Any]) -> None:
        if event["event"] == "runner_on_ok":
            said.append(event["event_data"]["res"]["msg"])

    paths = Paths(tmp_path / "hosts.yml", tmp_path / "catalog.yaml", tmp_path / "facts")
    assert runner.run_playbook(Run(str(tmp_path / "show.yml"), paths), see) == 0
    assert said == [checked]
