# SPDX-License-Identifier: Apache-2.0
"""The role `engine` on a real host, with wheels that lie on it.

The packages are made here: a few lines under the names vllm and needed. To the role all packages are alike, and real
engines have their own tests in tests/engines. Every test has a prefix of its own, so that their order does not matter.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fleet.lab.hosts import Lab
from tests.fleet.site import PROJECT, recap, wait_for
from tests.support.wheels import sha256, write_wheel

pytestmark = pytest.mark.timeout(300)
HOST = "n2"
WHEELS = "/srv/engine-wheels"
PROGRAM = """
import sys, time
def main():
    print("the program of version", VERSION, flush=True)
    time.sleep(600 if sys.argv[1:] == ["serve"] else 0)
"""
PLAYBOOK = """\
- hosts: fleet
  gather_facts: false
  roles: [llmgw.fleet.engine]
"""

Variables = Mapping[str, object]
NONE: Variables = {}


class Node:
    """The host, and the role as an operator runs it."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.wheels = {version: self._wheel(version) for version in ("1.0", "1.1")}
        self.needed = write_wheel(folder / "wheels", "needed", "3.0", files={"needed.py": ""})
        lab.put(HOST, {WHEELS: folder / "wheels"})
        lab.inventory(folder / "hosts.yml", groups={"fleet": [HOST]})
        (folder / "engine.yml").write_text(PLAYBOOK)

    def _wheel(self, version: str) -> Path:
        code = f"VERSION = {version!r}\n{PROGRAM}"
        return write_wheel(
            self.folder / "wheels",
            "vllm",
            version,
            files={"vllm_program.py": code},
            program="vllm = vllm_program:main",
            requires=["needed"],
        )

    def command(self, prefix: str, version: str, *arguments: str, more: Variables = NONE) -> list[str]:
        """The command line that brings a version of vllm below the prefix."""
        told = {
            "llmgw_prefix": prefix,
            "llmgw_engine_kinds": ["vllm"],
            "llmgw_engine_versions": {"vllm": version},
            "llmgw_engine_keep": 0,
            "llmgw_wheelhouse": WHEELS,
            **more,
        }
        program = str(Path(sys.executable).parent / "ansible-playbook")
        playbook = [program, "-i", str(self.folder / "hosts.yml"), str(self.folder / "engine.yml")]
        return [*playbook, "-e", json.dumps(told), *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return {"ANSIBLE_COLLECTIONS_PATH": str(PROJECT / "collections"), "ANSIBLE_NOCOLOR": "1"}

    def role(
        self, prefix: str, version: str, *arguments: str, status: int = 0, more: Variables = NONE
    ) -> tuple[int, str]:
        """How many tasks changed something, and the output; the run must end with that status."""
        command = self.command(prefix, version, *arguments, more=more)
        done = self.lab.run(command, cwd=self.folder, env=self.environment, timeout=120)
        assert done.returncode == status, done.stdout[-4000:]
        return recap(done.stdout)[HOST]["changed"], done.stdout

    def killed(self, command: list[str], begun: str, victims: str) -> str:
        """What a run prints whose processes are killed once it has begun; both are found by commands on the host."""
        running = self.lab.popen(
            command, env=self.environment, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        wait_for(lambda: self.says(begun, check=False) != "", 60, "pip to ask the index that never answers")
        self.says(f"kill -9 $({victims})")
        output = running.communicate(timeout=60)[0]
        assert running.returncode in (2, 4), output  # 4: with the module went the login that it ran in
        return output

    @contextmanager
    def silent_index(self) -> Iterator[Variables]:
        """Variables by which packages come from an index on the host that takes connections and never answers."""
        silent = "import socket, time; held = socket.create_server(('127.0.0.1', 18080)); time.sleep(600)"
        self.says(f'systemd-run --unit=silent-index --collect python3 -c "{silent}"')
        try:
            yield {"llmgw_wheelhouse": "", "llmgw_engine_index_url": "http://127.0.0.1:18080/simple"}
        finally:
            self.says("systemctl stop silent-index")

    def says(self, command: str, *, check: bool = True) -> str:
        """What a shell command on the host prints."""
        return self.lab.ssh(HOST, command, check=check).stdout.strip()

    def there(self, prefix: str) -> tuple[str, ...]:
        """The versions of vllm below the prefix, with an arrow for the current one."""
        return tuple(
            self.says(f"cd {prefix}/engines/vllm && ls -d [0-9]* && echo '->' $(readlink current)").split("\n")
        )


@pytest.fixture(scope="module")
def node(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    yield Node(lab, tmp_path_factory.mktemp("engines"))
    lab.ssh(HOST, f"rm -rf {WHEELS} /srv/prefix-*", check=True)


@pytest.fixture
def unit(node: Node) -> Iterator[str]:
    """Name of a unit that the test writes, and that is gone afterwards."""
    name = "llmgw-chat.0.0.service"
    yield name
    node.says(f"systemctl disable --now {name}; rm -f /etc/systemd/system/{name}; systemctl daemon-reload", check=False)


def test_a_new_version_comes_beside_the_one_that_runs_and_the_old_one_goes_when_no_unit_names_it(
    node: Node, unit: str
) -> None:
    prefix = "/srv/prefix-upgrade"
    assert node.role(prefix, "1.0", "--check")[0] == 1
    assert node.says(f"ls {prefix}", check=False) == ""
    assert node.role(prefix, "1.0")[0] == 1
    assert node.role(prefix, "1.0")[0] == 0
    assert node.role(prefix, "1.0", "--check")[0] == 0
    program = node.says(f"realpath {prefix}/engines/vllm/current")
    assert program == f"{prefix}/engines/vllm/1.0"

    text = f"[Service]\nExecStart={program}/bin/vllm serve\nUser=nobody\n"
    node.lab.put(HOST, {f"/etc/systemd/system/{unit}": text})
    node.says(f"systemctl daemon-reload && systemctl start {unit}")
    process = node.says(f"systemctl show --property=MainPID {unit}")

    changed, output = node.role(prefix, "1.1", "--check", "--diff")
    assert changed == 1
    assert f"+{prefix}/engines/vllm/1.1 (current)" in output
    assert node.there(prefix) == ("1.0", "-> 1.0")
    assert node.role(prefix, "1.1")[0] == 1
    assert node.there(prefix) == ("1.0", "1.1", "-> 1.1")
    assert node.says(f"{prefix}/engines/vllm/current/bin/vllm") == "the program of version 1.1"
    assert node.says(f"systemctl show --property=MainPID {unit}") == process

    node.says(f"rm /etc/systemd/system/{unit} && systemctl daemon-reload")
    assert node.role(prefix, "1.1")[0] == 0
    assert node.there(prefix) == ("1.0", "1.1", "-> 1.1"), "its process still runs"
    node.says(f"systemctl stop {unit}")
    assert node.role(prefix, "1.1", "--check")[0] == 1
    assert node.there(prefix) == ("1.0", "1.1", "-> 1.1")
    assert node.role(prefix, "1.1")[0] == 1
    assert node.there(prefix) == ("1.1", "-> 1.1")
    assert node.role(prefix, "1.1")[0] == 0


def test_a_wheel_with_another_checksum_is_refused_and_what_was_current_stays(node: Node) -> None:
    prefix = "/srv/prefix-checksum"
    requirements = node.folder / "vllm.txt"
    right = f"vllm==1.0 --hash={sha256(node.wheels['1.0'])}\nneeded==3.0 --hash={sha256(node.needed)}\n"
    named = {"llmgw_engine_requirements": {"vllm": str(requirements)}}
    requirements.write_text(right)
    assert node.role(prefix, "1.0", more=named)[0] == 1
    (first, arrow) = node.there(prefix)
    assert arrow == f"-> {first}"

    requirements.write_text(right.replace(sha256(node.needed), f"sha256:{'0' * 64}"))
    output = node.role(prefix, "1.0", status=2, more=named)[1]
    assert "is not what the requirements file says" in output
    assert node.there(prefix) == (first, arrow)
    assert node.says(f"{prefix}/engines/vllm/current/bin/vllm") == "the program of version 1.0"

    requirements.write_text(right)
    assert node.role(prefix, "1.0", more=named)[0] == 0


def test_an_installation_that_was_killed_never_becomes_current_and_is_begun_anew(node: Node) -> None:
    prefix = "/srv/prefix-killed"
    pip = f"pgrep -f '^{prefix}/engines/vllm/1.1/bin/python -m pip'"
    module = "pgrep -f [A]nsiballZ_engine_version"  # the brackets: not the shell that asks
    with node.silent_index() as elsewhere:
        assert "pip was ended by signal 9" in node.killed(node.command(prefix, "1.1", more=elsewhere), pip, pip)
        assert node.says(f"ls {prefix}/engines/vllm") == "", "pip's end is the module's to clean up after"
        node.killed(node.command(prefix, "1.1", more=elsewhere), pip, module)
        wait_for(lambda: node.says(pip, check=False) == "", 20, "pip to end with the module that started it")
    assert node.there(prefix) == ("1.1", "->")
    assert node.role(prefix, "1.1")[0] == 1
    assert node.there(prefix) == ("1.1", "-> 1.1")
    assert node.says(f"{prefix}/engines/vllm/current/bin/vllm") == "the program of version 1.1"
    assert node.role(prefix, "1.1")[0] == 0


def test_a_user_without_root_installs_below_the_own_home(node: Node) -> None:
    own: Variables = {
        "llmgw_scope": "user",
        "llmgw_engine_kinds": ["sim"],
        "llmgw_engine_versions": {},
        "ansible_user": "deploy",
    }
    try:
        assert node.role("~/.local/share/llmgw", "-", more=own)[0] == 1
        assert node.role("~/.local/share/llmgw", "-", more=own)[0] == 0
        program = "/home/deploy/.local/share/llmgw/engines/sim/current/bin/llmgw-sim"
        assert "simulator" in node.lab.ssh(HOST, f"{program} --version", user="deploy", check=True).stdout
    finally:
        node.says("rm -rf /home/deploy/.local/share/llmgw")


def test_a_llama_server_that_the_node_has_is_used_as_it_is(node: Node) -> None:
    prefix = "/srv/prefix-native"
    node.lab.put(HOST, {"/usr/local/bin/llama-server": "#!/bin/sh\necho 'version: 6123 (a1b2c3)'\n"})
    try:
        output = node.role(prefix, "-", "-v", more={"llmgw_engine_kinds": ["llama.cpp"], "llmgw_engine_versions": {}})[
            1
        ]
        assert "/usr/local/bin/llama-server" in output
        assert recap(output)[HOST]["changed"] == 0
        assert node.says(f"ls {prefix}", check=False) == ""
    finally:
        node.says("rm /usr/local/bin/llama-server")
