# SPDX-License-Identifier: Apache-2.0
"""The inventory is read by the real ansible-inventory, as operators have it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from llmgw.errors import LlmgwError
from llmgw.fleet import inventory
from llmgw.fleet.hosts import Host
from llmgw.fleet.inventory import read_inventory

GROUPS = """\
all:
  vars:
    llmgw_scope: user
    vault_token: "{{ lookup('env', 'TOKEN') }}"
  children:
    fleet:
      hosts:
        plain:
      children:
        racks:
          children:
            rack-a:
              hosts:
                a[1:2]:
                  llmgw_labels: {rack: a}
              vars:
                llmgw_cordoned: true
            rack-b:
              hosts:
                b1:
    gateway:
      hosts:
        edge:
          ansible_host: 192.0.2.9
        a1:
    others:
      hosts:
        unrelated:
"""


def test_groups_children_and_every_level_of_variables_count(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(GROUPS)
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars" / "b1.yml").write_text("llmgw_labels: {rack: b}\nllmgw_lost: true\napi_password: secret\n")
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "fleet.json").write_text('{"llmgw_model_dirs": ["/srv/models"]}')
    common = {"llmgw_scope": "user", "llmgw_model_dirs": ["/srv/models"]}
    rack_a = common | {"llmgw_labels": {"rack": "a"}, "llmgw_cordoned": True}
    assert read_inventory(path) == (
        Host("a1", node=True, gateway=True, variables=rack_a),
        Host("a2", node=True, gateway=False, variables=rack_a),
        Host("b1", node=True, gateway=False, variables=common | {"llmgw_labels": {"rack": "b"}, "llmgw_lost": True}),
        Host("edge", node=False, gateway=True, variables={"llmgw_scope": "user", "ansible_host": "192.0.2.9"}),
        Host("plain", node=True, gateway=False, variables=common),
    )


def test_variables_in_the_folder_that_one_is_in_count_no_more_than_for_the_playbooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory/hosts.yml").write_text("fleet:\n  hosts:\n    n1:\n")
    for folder, value in ((tmp_path, "elsewhere"), (tmp_path / "inventory", "beside it")):
        (folder / "group_vars").mkdir()
        (folder / "group_vars/all.yml").write_text(f"llmgw_state_dir: {value}\nllmgw_of_{value[:4]}: 1\n")
    monkeypatch.chdir(tmp_path)
    (host,) = read_inventory(Path("inventory/hosts.yml"))
    assert host.variables == {"llmgw_state_dir": "beside it"}
    assert host.unread == ("llmgw_of_besi",)


def test_an_ini_inventory_with_no_such_groups_has_no_hosts(tmp_path: Path) -> None:
    path = tmp_path / "hosts.ini"
    path.write_text("[web]\nw1\n")
    assert read_inventory(path) == ()


def refused(path: Path) -> LlmgwError:
    with pytest.raises(LlmgwError) as caught:
        read_inventory(path)
    return caught.value


def test_a_missing_inventory_says_how_to_get_one(tmp_path: Path) -> None:
    error = refused(tmp_path / "hosts.yml")
    assert error.code == "inventory-missing"
    assert "hosts.yml" in error.why
    assert "llmgw init" in (error.fix or "")


def test_broken_yaml_is_told_in_ansibles_own_words(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text("all:\n  hosts:\n    n1: {unclosed\n   bad: indent\n")
    error = refused(path)
    assert error.code == "inventory-broken"
    assert str(error.where) == str(path)
    assert "hosts.yml" in error.why
    assert "ansible-inventory -i" in (error.fix or "")


@pytest.mark.parametrize(
    "value", ["{{ groups['fleet'] | length }}", "/srv/{% if true %}a{% endif %}", ["/a", "{{ b }}"]]
)
def test_a_template_in_a_variable_of_ours_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: object
) -> None:
    variables = {"llmgw_state_dir": value, "other": "{{ fine }}"}
    document = {"fleet": {"hosts": ["n1"]}, "_meta": {"hostvars": {"n1": variables}}}
    monkeypatch.setattr(inventory, "_ask_ansible", lambda _path: document)
    error = refused(tmp_path)
    assert error.code == "inventory-template"
    assert error.why.startswith("llmgw_state_dir of n1 is a template")
    assert "plainly" in (error.fix or "")
    assert error.where is None, "which file has it, Ansible does not say"


def test_a_template_for_fabrics_is_left_to_who_judges_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    document = {"fleet": {"hosts": ["n1"]}, "_meta": {"hostvars": {"n1": {"llmgw_fabrics": "{{ other }}"}}}}
    monkeypatch.setattr(inventory, "_ask_ansible", lambda _path: document)
    (found,) = inventory.read_inventory(tmp_path)
    assert found.variables == {"llmgw_fabrics": "{{ other }}"}


def test_an_answer_that_is_no_json_is_an_error_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def chatty(command: list[str], **_more: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, "a plugin's greeting\n{}", "")

    monkeypatch.setattr(subprocess, "run", chatty)
    error = refused(tmp_path)
    assert error.code == "inventory-broken"
    assert "no JSON" in error.why


def test_an_ansible_that_hangs_or_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def hang(command: list[str], **_more: object) -> None:
        raise subprocess.TimeoutExpired(command, 60)

    monkeypatch.setattr(subprocess, "run", hang)
    assert "did not answer" in refused(tmp_path).why
    monkeypatch.undo()
    monkeypatch.setattr(inventory.sys, "executable", str(tmp_path / "python"))  # type: ignore[attr-defined]
    assert "did not answer" in refused(tmp_path).why
