# SPDX-License-Identifier: Apache-2.0
"""Members of one replica as units of one machine: what ends one ends all, within seconds, and all come back (R7)."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import guard
from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import WantedUnit
from ansible_collections.llmgw.fleet.plugins.module_utils.readiness import Readiness
from tests.systemd.node import SIMULATOR, Node, free_port

LIMIT_S = 40.0
WORST_S = 20.0
"""The rule is ten seconds from a fault to the last engine process gone; a loaded machine gets twice that."""
STREAM = {"prompt": "hello", "max_tokens": 60, "ignore_eos": True, "stream": True}


def until(what: str, check: Callable[[], bool], limit_s: float = LIMIT_S) -> float:
    """Seconds until `check` was true; fails with `what` when it is not in time."""
    began = time.monotonic()
    while not check():
        assert time.monotonic() < began + limit_s, f"not within {limit_s:g} s: {what}"
        time.sleep(0.05)
    return time.monotonic() - began


class Group:
    """Units of the simulator that are the ranks of one replica; rank 0 serves `group`."""

    def __init__(self, node: Node, size: int, *, digests: tuple[str, ...] = (), load_s: float = 0.2) -> None:
        self.node = node
        self.port = free_port()
        self.guards = [free_port() for _ in range(size)]
        meeting = f"--nnodes {size} --master-addr 127.0.0.1 --master-port {free_port()}"
        members = " ".join(f"--member {rank}=127.0.0.1:{port}" for rank, port in enumerate(self.guards))
        self.units = []
        for rank in range(size):
            group = f"--group {digests[rank] if digests else 'sha256:one'} --rank {rank} {members} --stop-timeout 20"
            engine = f"{sys.executable} {SIMULATOR} --model tiny --served-model-name group {meeting} --node-rank {rank}"
            if rank:
                engine += " --headless"
                readiness = Readiness("leader", "127.0.0.1", self.port, expect_model="group", ready_timeout_s=40)
            else:
                engine += f" --port {self.port} --itl-ms 20 --load-seconds {load_s} --shutdown-timeout 15"
                readiness = Readiness("http", "127.0.0.1", self.port, expect_model="group", ready_timeout_s=40)
            command = f"/usr/bin/env python3 -I {node.state_dir}/guard.py {group} -- {engine}"
            self.units.append(node.unit(f"rank{rank}", command, readiness, stop_s=30, members=size))

    def show(self, rank: int, what: str) -> str:
        return self.node.systemctl("show", "-p", what, "--value", self.units[rank].name)

    def guard(self, rank: int) -> int:
        return self.node.main_pid(self.units[rank].name)

    def engine(self, rank: int) -> int | None:
        """The engine's process; None while none runs."""
        pid = self.guard(rank)
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return None
        return int(children[0]) if children else None

    def processes(self, rank: int) -> list[int]:
        """All of the unit's control group."""
        group = self.show(rank, "ControlGroup")
        found = []
        for path in Path("/proc").glob("[0-9]*/cgroup"):
            with contextlib.suppress(OSError):
                if path.read_text().rstrip().endswith(group):
                    found.append(int(path.parent.name))
        return found

    def log(self, rank: int) -> str:
        return (self.node.state_dir / "logs" / f"rank{rank}.log").read_text()

    @property
    def serves(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            body = json.dumps({"prompt": "hello", "max_tokens": 1})
            connection.request("POST", "/v1/completions", body)
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    @contextlib.contextmanager
    def stream(self) -> Iterator[http.client.HTTPResponse]:
        """A stream of some seconds whose first token has come."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        try:
            connection.request("POST", "/v1/completions", json.dumps(STREAM))
            response = connection.getresponse()
            assert response.readline().startswith(b"data: ")
            yield response
        finally:
            connection.close()


def say(text: str) -> None:
    """What was measured, for whoever runs the test with -s."""
    sys.stdout.write(f"\n{text}")


def all_gone(pids: list[int]) -> bool:
    return all(map(gone, pids))


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def states(results: dict[str, object]) -> set[str]:
    return {getattr(result, "state", "") for result in results.values()}


def test_members_start_together_and_the_guard_is_put_beside_them(node: Node) -> None:
    group = Group(node, 3)
    outcome = node.apply(group.units)
    assert states(dict(outcome.results)) == {"ready"}
    program = node.state_dir / "guard.py"
    assert program.read_bytes() == Path(guard.__file__).read_bytes()
    assert program.stat().st_mode & 0o777 == 0o644
    pids = [group.guard(rank) for rank in range(3)]
    program.write_text("raise SystemExit('of an older version')")
    again = node.apply(group.units)
    assert (again.changed, set(again.actions.values())) == (False, {"kept"})
    assert program.read_bytes() == Path(guard.__file__).read_bytes()
    assert [group.guard(rank) for rank in range(3)] == pids


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_whatever_is_killed_all_engines_end_soon_and_serve_again_after_one_restart(node: Node) -> None:
    group = Group(node, 2)
    node.apply(group.units)
    assert group.serves
    victims: tuple[tuple[str, int, Callable[[int], list[int]]], ...] = (
        ("engine", 1, lambda rank: [group.engine(rank) or 0]),
        ("guard", 0, lambda rank: [group.guard(rank)]),
        ("control group", 0, group.processes),
        ("control group", 1, group.processes),
    )
    for restarts, (what, rank, pids_of) in enumerate(victims, 1):
        engines = [group.engine(one) or 0 for one in (0, 1)]
        for pid in pids_of(rank):
            assert pid > 1
            with contextlib.suppress(ProcessLookupError):  # it went with the one before
                os.kill(pid, signal.SIGKILL)
        took = until(f"{what} of rank {rank} to end all", partial(all_gone, engines), WORST_S)
        served = until("the group to serve again", lambda: group.serves)
        say(f"{what} of rank {rank} killed: engines gone after {took:.2f} s, serving after {served:.1f} s more")
        assert [group.show(one, "NRestarts") for one in (0, 1)] == [str(restarts)] * 2
    assert "the group ends: the engine of rank 1 at 127.0.0.1:" in group.log(0)
    assert "ended with signal 9" in group.log(0)
    assert "closed its connection" in group.log(0) + group.log(1)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_frozen_member_ends_the_other_and_itself_once_it_thaws(node: Node) -> None:
    rank = 1
    group = Group(node, 2)
    node.apply(group.units)
    frozen, engines = group.processes(rank), [group.engine(one) or 0 for one in (0, 1)]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    took = until("the other engine to end", lambda: gone(engines[1 - rank]), WORST_S)
    assert "was silent for" in group.log(1 - rank)
    for pid in frozen:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    thawed = until("the thawed engine to end", lambda: gone(engines[rank]), WORST_S)
    say(f"rank {rank} frozen: the other's engine gone after {took:.2f} s, its own {thawed:.2f} s after it thawed")
    until("the group to serve again", lambda: group.serves)
    assert group.show(1 - rank, "NRestarts") == "1"


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_stops_let_streams_finish_whoever_is_stopped(node: Node) -> None:
    group = Group(node, 2)
    node.apply(group.units)
    leader, follower = (unit.name for unit in group.units)
    with group.stream() as stream:
        node.systemctl("stop", follower)
        assert b"[DONE]" in stream.read()
    assert group.show(1, "Result") == "success"
    until(
        "rank 0 to be there without an engine", lambda: group.show(0, "SubState") == "running" and not group.engine(0)
    )
    assert "rank 1 at 127.0.0.1:" in group.log(0)
    assert " is being stopped: the engine gets 20 s to finish what it serves" in group.log(0)
    node.systemctl("start", follower)
    until("the group to serve again", lambda: group.serves)
    with group.stream() as stream:
        node.systemctl("stop", "--no-block", follower, leader)
        assert b"[DONE]" in stream.read()
    until("both to be stopped", lambda: {group.show(one, "ActiveState") for one in (0, 1)} == {"inactive"})
    assert [group.show(one, "Result") for one in (0, 1)] == ["success", "success"]


def test_members_of_different_groups_wait_and_do_not_restart(node: Node) -> None:
    group = Group(node, 2, digests=("sha256:one", "sha256:two"))
    for unit in group.units:
        start(node, unit)
    for rank in (0, 1):
        until("it to refuse the other", lambda: "apply all members again" in group.log(rank))  # noqa: B023 - called here
        assert (group.show(rank, "NRestarts"), group.engine(rank)) == ("0", None)


def test_a_guard_whose_port_is_taken_fails_and_its_log_says_so(node: Node) -> None:
    group = Group(node, 2)
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", group.guards[1]))
        squatter.listen()
        result = node.apply(group.units[1:]).results[group.units[1].name]
    assert result.state == "failed"
    assert f"cannot listen as rank 1 at 127.0.0.1:{group.guards[1]}" in (result.log_tail or "")


def test_an_engine_gets_its_secret_also_from_a_manager_that_gives_no_credentials(node: Node) -> None:
    secret = node.state_dir / "secrets" / "hf-token"
    secret.parent.mkdir(parents=True)
    secret.write_text("hf_only-for-the-engine\n")
    program = f"/usr/bin/env python3 -I {node.state_dir}/guard.py --secret HF_TOKEN=hf-token -- /bin/sleep 1000"
    unit = node.unit("secret", program, extra=f"LoadCredential=hf-token:{secret}")
    assert states(dict(node.apply([unit]).results)) == {"ready"}
    environment = Path(f"/proc/{node.main_pid(unit.name)}/environ").read_bytes()
    assert b"HF_TOKEN=hf_only-for-the-engine" in environment.split(b"\0")
    assert "hf_only" not in node.systemctl("show", unit.name)


def start(node: Node, unit: WantedUnit) -> None:
    """Starts a unit without waiting for it to be ready."""
    node.state.prepare()
    (node.state_dir / "logs").mkdir(exist_ok=True)
    (node.state_dir / "guard.py").write_bytes(Path(guard.__file__).read_bytes())
    (node.unit_dir / unit.name).write_text(unit.text)
    node.systemctl("daemon-reload")
    node.systemctl("start", unit.name)
