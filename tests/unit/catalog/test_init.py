# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import configparser
import subprocess
from pathlib import Path

import pytest

from llmgw.apply.inputs import find_paths
from llmgw.catalog.load import load_catalog
from llmgw.cli.init import FILES
from llmgw.cli.main import run
from llmgw.fleet.inventory import read_inventory


def test_init_writes_a_fleet_that_the_other_commands_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.count("wrote") == len(FILES)
    (chat,) = load_catalog(tmp_path / "new/inventory").services
    assert chat.profiles[0].engine == "sim"
    (host,) = read_inventory(tmp_path / "new/inventory/hosts.yml")
    assert (host.name, host.node, host.gateway) == ("localhost", True, True)
    assert 'ansible_python_interpreter: "{{ ansible_playbook_python }}"' in FILES["inventory/hosts.yml"]
    config = configparser.ConfigParser()
    config.read(tmp_path / "new/ansible.cfg")
    assert (tmp_path / "new" / config["defaults"]["inventory"]).exists()
    assert "ServerAliveInterval" in config["ssh_connection"]["ssh_args"]


def test_the_engine_that_the_starter_offers_in_a_comment_works_as_it_stands(tmp_path: Path) -> None:
    text = FILES["inventory/catalog.yaml"]
    text = (
        text.replace("    hf_id:", "    # hf_id:")
        .replace("    # path:", "    path:")
        .replace("smollm2-sim   #", "smollm2-cpu   #")
    )
    text = text.replace("  # smollm2-cpu:", "  smollm2-cpu:").replace("  #   ", "    ")
    (tmp_path / "catalog.yaml").write_text(text, encoding="utf-8")
    (chat,) = load_catalog(tmp_path).services
    assert chat.profiles[0].engine == "llama.cpp"


def test_init_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory/catalog.yaml").write_text("mine", encoding="utf-8")
    (tmp_path / "ansible.cfg").symlink_to("elsewhere")
    assert run(["init", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert (out.count("kept"), out.count("wrote")) == (2, 2)
    assert (tmp_path / "inventory/catalog.yaml").read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "elsewhere").exists()


def test_what_llmgw_reads_of_hosts_stays_out_of_git(tmp_path: Path) -> None:
    assert run(["init", str(tmp_path)]) == 0
    facts = find_paths(tmp_path / "inventory").facts / "n1.json"
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True, timeout=30)
    asked = ["git", "-C", str(tmp_path), "check-ignore", "--quiet"]
    assert [
        subprocess.run([*asked, str(path)], check=False, timeout=30).returncode
        for path in (facts, tmp_path / "inventory/hosts.yml", tmp_path / "inventory/group_vars/all.yml")
    ] == [0, 1, 1]


def test_init_says_where_it_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert run(["init", str(tmp_path / "file")]) == 1
    assert str(tmp_path / "file/ansible.cfg") in capsys.readouterr().err
