# SPDX-License-Identifier: Apache-2.0
"""One replica over three real hosts: whatever breaks it ends every engine within seconds, and it serves again (R7)."""

from __future__ import annotations

import http.client
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import pytest

from llmgw.model.ids import EngineKind, ModelName, NodeName, ProfileName, ReplicaId, ServiceName
from llmgw.model.node import Node, NodeSettings, NodeState
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ModelSpec, ProfileSpec, ServiceSpec
from llmgw.model.unit import UnitFile
from llmgw.nodekit import unitfile
from llmgw.units.render import render
from tests.fleet.lab.gold import PLAIN_USER
from tests.fleet.lab.holder import NETWORKS
from tests.fleet.lab.hosts import Lab
from tests.systemd.node import ROOT, SIMULATOR

pytestmark = pytest.mark.timeout(180)
HOSTS = ("n1", "n2", "n3")
SIM = EngineKind("sim")
STATE = "/var/lib/llmgw-groups"
PROGRAMS = "/opt/llmgw-groups"
HTTP = 18700
"""Of every member; the guards listen two ports above."""
WORST_S = 25.0
"""The rule is ten seconds from a fault to the last engine process gone; machines that share two processors get more."""
NOWHERE = "02:00:00:00:00:ee"
PLAY = f"""
- hosts: fleet
  gather_facts: false
  tasks:
    - llmgw.fleet.replica_units:
        generation: 1
        state_dir: {STATE}
        present: "{{{{ present }}}}"
        absent: "{{{{ absent }}}}"
"""


def until(what: str, check: Callable[[], bool], limit_s: float = 60.0) -> float:
    """Seconds until `check` was true; fails with `what` when it is not in time."""
    began = time.monotonic()
    while not check():
        assert time.monotonic() < began + limit_s, f"not within {limit_s:g} s: {what}"
        time.sleep(0.1)
    return time.monotonic() - began


class Replica:
    """The replica: rank 0 on n1. Its processes are seen from outside the hosts, whatever state those are in."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.name = f"group-{secrets.token_hex(4)}"  # other labs on this machine have engines too
        self._folder = folder
        for host in HOSTS:
            lab.put(host, {f"{PROGRAMS}/llmgw_sim": SIMULATOR})

    def units(self) -> dict[str, dict[str, object]]:
        """Each host's unit as llmgw renders it, but for shorter and more restarts: these tests break it often."""
        settings = NodeSettings(
            state_dir=STATE,
            engine_user=PLAIN_USER,
            engine_commands={SIM: ("/usr/bin/python3", f"{PROGRAMS}/llmgw_sim")},
        )
        nodes = {
            NodeName(host): Node(NodeName(host), self.lab.addresses[host], NodeState.OK, settings=settings)
            for host in HOSTS
        }
        model = ModelSpec(ModelName("m"), path="/dev/null")
        profile = ProfileSpec(ProfileName("wide"), SIM, model, nodes=len(HOSTS), args=("--load-seconds", "0.2"))
        service = ServiceSpec(ServiceName("group"), self.name, (), (profile,), 1)
        members = tuple(Member(rank, NodeName(host), (), HTTP) for rank, host in enumerate(HOSTS))
        replica = Assignment(ReplicaId("group/0"), service, profile, members)
        return {member.node: _given(render(replica, member, nodes)) for member in members}

    def apply(self, *, there: bool) -> None:
        """Brings the units to the hosts, or takes them away, by the module over ssh."""
        variables = {
            host: {"present": [unit] if there else [], "absent": [] if there else [unit["name"]]}
            for host, unit in self.units().items()
        }
        inventory = self.lab.inventory(self._folder / "hosts.yml", groups={"fleet": HOSTS}, host_vars=variables)
        play = self._folder / "play.yml"
        play.write_text(PLAY)
        command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(inventory), str(play)]
        done = self.lab.run(command, env={"ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")}, cwd=ROOT, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr

    def engines(self) -> dict[int, int]:
        """The engines' processes by rank."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = path.read_bytes().decode("ascii", "replace").split("\0")
                if self.name in words and not any(word.endswith("/guard.py") for word in words):
                    found[int(words[words.index("--node-rank") + 1])] = int(path.parent.name)
        return found

    def serves(self) -> bool:
        with self.lab.network():
            connection = http.client.HTTPConnection(self.lab.addresses["n1"], HTTP, timeout=2)
            try:
                connection.request("POST", "/v1/completions", json.dumps({"prompt": "hello", "max_tokens": 1}))
                return connection.getresponse().status == 200
            except OSError:
                return False
            finally:
                connection.close()

    def log(self, host: str) -> str:
        return self.lab.ssh(host, "journalctl -o cat -u 'llmgw-group.*'", check=True).stdout

    def serving(self) -> None:
        """Notes the engines of the group once it serves."""
        until("the group to serve", self.serves)
        self._before = self.engines()
        assert sorted(self._before) == [0, 1, 2]

    def ended(self, what: str, *ranks: int) -> None:
        """Returns once the engines noted, or those of some ranks, are gone after a fault; fails when they stay."""
        awaited = {self._before[rank] for rank in ranks or self._before}
        took = until(f"engines to end after: {what}", lambda: not awaited & set(self.engines().values()), WORST_S)
        sys.stdout.write(f"\n{what}: the last engine was gone after {took:.1f} s")

    def recovers(self) -> None:
        sys.stdout.write(f", serving again {until('the group to serve again', self.serves):.1f} s later")


def _given(unit: UnitFile) -> dict[str, object]:
    """A unit as an option of the module."""
    text = unit.text.replace("\nRestartSec=5\n", "\nRestartSec=1\n").replace("StartLimitBurst=5", "StartLimitBurst=50")
    digest = unitfile.text_digest(text)
    return {
        "name": unit.name,
        "text": text.replace(f"TextDigest={unit.text_digest}", f"TextDigest={digest}"),
        "process_digest": unit.process_digest,
        "text_digest": digest,
        "readiness": asdict(unit.readiness),
        "stop_timeout_s": unit.stop_timeout_s,
    }


@pytest.fixture(scope="module")
def replica(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    made = Replica(lab, tmp_path_factory.mktemp("groups"))
    made.apply(there=True)
    yield made
    made.apply(there=False)
    for host in HOSTS:
        lab.ssh(host, f"rm -r {STATE} {PROGRAMS}", check=True)


def test_an_engine_that_is_killed_ends_those_of_the_other_hosts(replica: Replica) -> None:
    replica.serving()
    replica.lab.ssh("n3", "pkill -KILL -f '^/usr/bin/python3 /opt/llmgw-groups'", check=True)
    replica.ended("engine of rank 2 killed")
    replica.recovers()
    assert "the group ends: the engine of rank 2 at 10.77.0.13:18702 ended with signal 9" in replica.log("n1")


def test_a_host_that_freezes_ends_the_others_and_its_own_engine_when_it_thaws(replica: Replica) -> None:
    replica.serving()
    replica.lab.freeze("n2")
    try:
        replica.ended("host of rank 1 frozen", 0, 2)
    finally:
        replica.lab.thaw("n2")
    replica.ended("host of rank 1 thawed")
    replica.recovers()
    assert "the group ends: rank 1 at 10.77.0.12:18702 was silent for" in replica.log("n1") + replica.log("n3")


def test_a_cut_between_two_followers_ends_all_three(replica: Replica) -> None:
    replica.serving()
    with cut_between(replica.lab, "n2", "n3"):
        replica.ended("network between ranks 1 and 2 cut")
        assert not replica.serves()
    replica.recovers()
    assert "was silent for" in replica.log("n1")


def test_a_host_that_loses_power_ends_the_others_and_comes_back(replica: Replica) -> None:
    replica.serving()
    replica.lab.cut("n3")  # nobody says goodbye for it
    replica.lab.crash("n3")
    try:
        replica.ended("host of rank 2 without power")
    finally:
        replica.lab.heal("n3")
        replica.lab.start("n3")
    replica.recovers()


def test_a_host_that_reboots_is_left_by_a_drain_and_joined_again(replica: Replica) -> None:
    replica.serving()
    with replica.lab.rebooting("n2"):
        replica.lab.ssh("n2", "systemctl reboot")
        replica.ended("host of rank 1 rebooted")
    replica.recovers()
    assert "is being stopped: the engine gets 30 s to finish what it serves" in replica.log("n1")


@contextmanager
def cut_between(lab: Lab, *pair: str) -> Iterator[None]:
    """While it lasts, what two hosts send to each other is lost without an answer."""
    _send_to(lab, pair, dict.fromkeys(pair, NOWHERE))
    try:
        yield
    finally:
        _send_to(
            lab, pair, {host: f"02:00:00:00:00:{int(lab.addresses[host].rpartition('.')[2]):02x}" for host in pair}
        )


def _send_to(lab: Lab, pair: tuple[str, ...], stations: dict[str, str]) -> None:
    inside = ["nsenter", f"--mount=/proc/{lab.pid}/ns/mnt", "--", "nsenter"]
    for host, other in (pair, pair[::-1]):
        neighbour = f"ip neighbour replace {lab.addresses[other]} lladdr {stations[other]} dev host0 nud permanent"
        network = ["--net=" + str(NETWORKS / host), "--"]
        subprocess.run([*inside, *network, *neighbour.split()], check=True, timeout=30)
