# SPDX-License-Identifier: Apache-2.0
"""Members of one replica start together, end together, and tell why (R7): real guards, real engines, real sockets."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.unit.module_utils.guard_members import DEAF, DRAINING, GROUP, LIMIT_S, Group, until

MakeGroup = Callable[..., Group]
WORST_S = 20.0
"""The rule is ten seconds from a fault to the last engine process gone; a loaded machine gets twice that."""


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeGroup]:
    made: list[Group] = []

    def group(size: int, **options: object) -> Group:
        made.append(Group(tmp_path, size, **options))  # type: ignore[arg-type]
        return made[-1]

    yield group
    for one in made:
        one.clear()


def wakings(pid: int) -> int:
    """How often a process has waited for something and gone on."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def test_no_engine_starts_before_all_members_are_there(make: MakeGroup) -> None:
    group = make(3)
    group.start(0, 1)
    group.members[0].says("waiting for rank 2 at 127.0.0.1:")
    group.members[1].says("waiting for rank 2 at 127.0.0.1:")
    assert "(connection refused)" in group.members[1].log
    assert f"(group {GROUP})" in group.members[0].log
    assert group.members[0].engine is None
    before = wakings(group.members[1].process.pid)
    time.sleep(1)  # it looks several times a second, and neither says so each time nor spins
    assert group.members[1].log.count("waiting for") <= 3
    assert wakings(group.members[1].process.pid) - before < 100
    group.start(2)
    until("all to run", lambda: all(one.serves for one in group.members.values()))


def test_a_stop_while_waiting_ends_it_at_once_and_well(make: MakeGroup) -> None:
    group = make(2)
    group.start(1)
    group.members[1].says("waiting for")
    group.members[1].process.terminate()
    assert group.statuses() == [0]


@pytest.mark.parametrize("rank", [0, 2])
def test_an_engine_that_is_killed_ends_all_and_each_says_whose_it_was(make: MakeGroup, rank: int) -> None:
    group = make(3)
    group.together()
    engine = group.members[rank].engine
    assert engine
    began = time.monotonic()
    os.kill(engine, signal.SIGKILL)
    assert group.statuses() == [137 if number == rank else 75 for number in range(3)]
    assert time.monotonic() - began < WORST_S
    for one in group.members.values():
        assert f"the group ends: the engine of rank {rank} at {group.place(rank)} ended with signal 9" in one.log


def test_an_engine_that_ends_passes_its_status_on_and_one_that_ends_well_has_failed_all_the_same(
    make: MakeGroup,
) -> None:
    group = make(2)
    group.start(0)
    group.start(1, command=["/bin/sh", "-c", "sleep 0.5; exit 7"])
    assert group.statuses() == [75, 7]
    group.start(0)
    group.start(1, command=["/bin/sleep", "0.5"])
    assert group.statuses() == [75, 75]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_guard_that_is_killed_ends_the_others(make: MakeGroup, rank: int) -> None:
    group = make(3)
    group.together()
    group.members[rank].process.kill()
    others = [one for number, one in group.members.items() if number != rank]
    assert [one.ended() for one in others] == [75, 75]
    assert any(f"the group ends: rank {rank} at {group.place(rank)} closed its connection" in one.log for one in others)


def test_an_engine_that_heeds_no_sigterm_is_killed_soon(make: MakeGroup) -> None:
    group = make(2, on_term={0: DEAF}, stop_timeout=60)
    group.together()
    began = time.monotonic()
    group.members[1].process.kill()
    assert group.members[0].ended() == 75
    assert group.members[0].events == ["term"]
    assert time.monotonic() - began < WORST_S


def test_a_stop_of_all_lets_rank_0_finish_and_keeps_the_others_until_then(make: MakeGroup) -> None:
    group = make(3, on_term={0: DRAINING})
    group.together()
    for rank in (2, 1, 0):
        group.members[rank].process.terminate()
    until("rank 0 to drain", lambda: group.members[0].events == ["term"])
    assert all(group.members[rank].serves for rank in (1, 2))
    assert group.members[1].events == []
    assert group.statuses() == [0, 0, 0]
    assert group.members[0].events == ["term", "drained"]
    assert group.members[1].events == ["term"]


def test_a_stop_of_rank_0_alone_ends_the_others_as_failures_that_come_back(make: MakeGroup) -> None:
    group = make(2, on_term={0: DRAINING})
    group.together()
    group.members[0].process.terminate()
    assert group.statuses() == [0, 75]
    assert group.members[0].events == ["term", "drained"]
    assert f"the group ends: rank 0 at {group.place(0)} is being stopped" in group.members[1].log


def test_a_follower_stopped_alone_is_drained_by_rank_0_which_comes_back(make: MakeGroup) -> None:
    group = make(3, on_term={0: DRAINING})
    group.together()
    group.members[1].process.terminate()
    assert group.statuses() == [75, 0, 75]
    assert group.members[0].events == ["term", "drained"]
    assert f"rank 1 at {group.place(1)} is being stopped: the engine gets 10 s" in group.members[0].log


def test_a_drain_ends_at_its_limit(make: MakeGroup) -> None:
    group = make(2, on_term={0: DEAF}, stop_timeout=0.3)
    group.together()
    group.members[1].process.terminate()
    assert group.statuses() == [75, 0]


def test_a_member_that_comes_back_before_its_end_was_seen_ends_the_group(make: MakeGroup) -> None:
    group = make(2)
    group.together()
    first = group.members[1].process
    first.send_signal(signal.SIGSTOP)  # as after a loss of power: its end reaches nobody
    with socket.socket() as again:
        again.connect(("127.0.0.1", group.ports[0]))
        again.sendall(f"llmgw-guard/1 {GROUP} 1 another forming \n".encode())
        assert group.members[0].ended() == 75
    assert f"rank 1 at {group.place(1)} was started anew" in group.members[0].log
    first.send_signal(signal.SIGCONT)
    assert group.members[1].ended() == 75


def test_members_of_different_groups_never_start_and_say_so(make: MakeGroup) -> None:
    group = make(2)
    group.start(0)
    group.start(1, group="sha256:other")
    for one in group.members.values():
        one.says("refused a connection from 127.0.0.1: rank")
        one.says("apply all members again")
        one.says("waiting for")
    assert [one.engine for one in group.members.values()] == [None, None]


def test_a_group_forms_over_ipv6(make: MakeGroup) -> None:
    group = make(2, hosts=["::1", "::1"])
    group.together()
    group.members[0].process.terminate()
    assert group.statuses() == [0, 75]


def test_a_member_is_known_by_its_address(make: MakeGroup) -> None:
    group = make(3, hosts=["127.0.0.1", "127.0.0.2", "127.0.0.3"])
    group.start(0)
    group.members[0].says("of group")
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.3", 0))
        stranger.connect(("127.0.0.1", group.ports[0]))
        stranger.sendall(f"llmgw-guard/1 {GROUP} 1 x forming \n".encode())
        group.members[0].says(
            f"refused a connection from 127.0.0.3: rank 1 at {group.place(1)} does not call from there"
        )
    group.start(1, 2)
    until("all to run", lambda: all(one.serves for one in group.members.values()))


def test_who_calls_from_no_members_address_is_hung_up_on_at_once(make: MakeGroup) -> None:
    group = make(2, hosts=["127.0.0.2", "127.0.0.3"])
    group.start(0)
    group.members[0].says("of group")
    strangers = [socket.create_connection(("127.0.0.2", group.ports[0]), LIMIT_S) for _number in range(40)]
    for stranger in strangers:
        with stranger, suppress(ConnectionResetError):
            assert stranger.recv(1) == b""
    group.members[0].says("refused a connection from 127.0.0.1: no member calls from there")
    assert "say nothing" not in group.members[0].log
    group.start(1)
    until("both to run", lambda: all(one.serves for one in group.members.values()))


def test_a_group_forms_while_connections_that_say_nothing_come_all_the_time(make: MakeGroup) -> None:
    group = make(2)
    over = threading.Event()

    def flood(port: int) -> None:
        held: deque[socket.socket] = deque()
        while not over.wait(0.002):
            with suppress(OSError):
                held.append(socket.create_connection(("127.0.0.1", port), 1))
            if len(held) > 100:
                held.popleft().close()
        for sock in held:
            sock.close()

    floods = [threading.Thread(target=flood, args=(port,)) for port in group.ports]
    for one in floods:
        one.start()
    try:
        group.start()
        group.members[0].says("too many connections say nothing")
        until("both to run", lambda: all(one.serves for one in group.members.values()))
    finally:
        over.set()
        for one in floods:
            one.join()
    assert all(one.serves for one in group.members.values())


@pytest.mark.parametrize("rank", ["00000000011", "00", "0x", "-1", "9" * 5000])
def test_a_rank_that_is_no_other_members_ends_nothing(make: MakeGroup, rank: str) -> None:
    group = make(2)
    group.together()
    with socket.create_connection(("127.0.0.1", group.ports[1]), LIMIT_S) as stranger:
        stranger.sendall(f"llmgw-guard/1 {GROUP} {rank} x ready e\n".encode())
        with suppress(ConnectionResetError):
            assert stranger.recv(1) == b""
    assert all(one.serves for one in group.members.values())


def test_noise_on_the_port_neither_keeps_members_out_nor_ends_a_group(make: MakeGroup) -> None:
    group = make(2)
    group.start(0)
    group.members[0].says("of group")
    greeting = f"llmgw-guard/1 {GROUP}".encode()
    sentences = (
        b"GET / HTTP/1.1\r\nHost: guard\r\n\r\n",
        bytes(range(256)) * 8,
        greeting + b" 0 x ready y\n",
        greeting + b" 99999999999999999999 x ready y\n",
        greeting + b" 1\n",
        b"x" * 100_000,
    )
    with ExitStack() as stack:

        def noise() -> None:
            for number in range(60):
                sock = stack.enter_context(socket.create_connection(("127.0.0.1", group.ports[0]), timeout=5))
                if number % 2:
                    with suppress(OSError):  # it hung up already
                        sock.sendall(sentences[number // 2 % len(sentences)])

        noise()
        group.start(1)
        until("both to run", lambda: all(one.serves for one in group.members.values()))
        noise()
        group.members[0].says("too many connections say nothing")
        quiet = stack.enter_context(socket.create_connection(("127.0.0.1", group.ports[0]), timeout=LIMIT_S))
        with suppress(ConnectionResetError):
            assert quiet.recv(1) == b""
    assert all(one.serves for one in group.members.values())
    assert group.members[0].log.count("\n") < 40
    group.members[0].process.terminate()
    assert group.statuses() == [0, 75]


def test_a_port_that_is_taken_is_said_and_ends_it(make: MakeGroup) -> None:
    group = make(2)
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", group.ports[0]))
        squatter.listen()
        group.start(0)
        assert group.statuses() == [1]
    assert f"cannot listen as rank 0 at {group.place(0)} " in group.logs
    assert "Address already in use" in group.logs


def test_a_command_that_is_not_there_is_said(make: MakeGroup) -> None:
    group = make(2)
    group.start(0, command=["/nonexistent/vllm"])
    group.start(1)
    assert group.members[0].ended() == 203
    why = f"rank 0 at {group.place(0)} cannot start /nonexistent/vllm: No such file or directory"
    assert f"the group ends: {why}" in group.members[0].log
