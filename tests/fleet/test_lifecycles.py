# SPDX-License-Identifier: Apache-2.0
"""Real engines in real units on a real host: they come, drain and go, and what goes wrong is told for what it is."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest

from tests.fleet.engines_on_a_host import CACHE, STATE, EngineHost, until
from tests.fleet.lab.hosts import Lab

HOST = "n2"
pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def installed(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> EngineHost:
    made = EngineHost(lab, HOST, tmp_path_factory.mktemp("lifecycles"))
    made.install()
    return made


@pytest.fixture
def host(installed: EngineHost) -> Iterator[EngineHost]:
    installed.clear()
    yield installed
    installed.clear()


@contextmanager
def stream(host: EngineHost, port: int, model: str, tokens: int) -> Iterator[http.client.HTTPResponse]:
    """A stream of which the first event has come."""
    with host.lab.network(), closing(http.client.HTTPConnection(host.address, port, timeout=60)) as connection:
        body = {"model": model, "prompt": "Once", "max_tokens": tokens, "stream": True, "ignore_eos": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.readline().startswith(b"data: ")
        yield response


def test_engines_start_drain_with_a_stream_open_and_stop_within_their_deadlines(host: EngineHost) -> None:
    real, sim = host.llama("real", 18000), host.sim("pretended", 18001, "--itl-ms", "40")
    results = host.apply(real, sim)
    assert (results[real.name]["state"], results[sim.name]["state"]) == ("ready", "ready"), results.msg
    seen = host.facts()
    assert {seen[one.name]["state"] for one in (real, sim)} == {"ready"}
    assert all(seen[one.name]["state_since"] > 1_700_000_000 for one in (real, sim))
    assert seen[real.name]["memory_report"]["kv_cache_tokens"] == 2048
    with ExitStack() as stack:
        streams = [
            stack.enter_context(stream(host, 18000, "real", 30)),
            stack.enter_context(stream(host, 18001, "pretended", 100)),
        ]
        host.ssh(f"systemctl stop --no-block {real.name} {sim.name}")
        draining = host.facts()
        for one in (real, sim):
            now = draining[one.name]
            if now["active_state"] == "deactivating":  # on a very slow machine the stream is over by now
                assert (now["state"], now["deadline"] - now["state_since"]) == ("draining", one.stop_timeout_s)
        for response in streams:
            assert b"data: [DONE]" in response.read()
    until(lambda: {host.show(one.name, "ActiveState") for one in (real, sim)} == {"inactive"}, "both to stop")
    assert {host.show(one.name, "Result") for one in (real, sim)} == {"success"}


def test_a_killed_leader_takes_its_workers_along_and_is_started_once_more(host: EngineHost) -> None:
    unit, real = host.sim("pretended", 18001, program="sim-with-worker"), host.llama("real", 18000)
    host.apply(unit, real)
    before = {one.name: host.processes(one.name) for one in (unit, real)}
    assert len(before[unit.name]) > 1
    for one in (unit, real):
        host.ssh(f"systemctl kill --kill-whom=main --signal=KILL {one.name}")
    until(lambda: {host.show(one.name, "NRestarts") for one in (unit, real)} == {"1"}, "both to be started again")
    until(lambda: host.serves(18000) and host.serves(18001), "both to serve again")
    for one in (unit, real):
        assert host.alive(before[one.name]) == set()
        assert not host.processes(one.name) & before[one.name]
        assert host.show(one.name, "NRestarts") == "1"


def test_a_port_that_another_process_has_is_told_before_anything_is_touched(host: EngineHost) -> None:
    old = host.sim("pretended", 18001)
    host.apply(old)
    pid, text = host.show(old.name, "MainPID"), host.ssh(f"cat /etc/systemd/system/{old.name}")
    host.ssh(f"systemd-run --unit=squatter python3 -m http.server --bind {host.address} 18002")
    try:
        until(lambda: ":4652 " in host.ssh("cat /proc/net/tcp"), "the other process to listen on 18002")
        moved, fresh = host.sim("pretended", 18002), host.sim("other", 18002)
        results = host.apply(moved, fresh)
    finally:
        host.ssh("systemctl stop squatter")
    for one in (moved, fresh):
        assert (results[one.name]["action"], results[one.name]["state"]) == ("kept", "failed")
        assert results[one.name]["detail"].startswith("port 18002 is taken by python3 (process ")
    assert results.changed is False
    assert (host.show(old.name, "MainPID"), host.ssh(f"cat /etc/systemd/system/{old.name}")) == (pid, text.strip())
    assert list(host.facts()) == [old.name]


def test_broken_weights_a_full_disk_and_a_memory_limit_fail_with_a_sentence_that_says_why(host: EngineHost) -> None:
    host.ssh("mkdir -p /srv/broken && head -c 60000000 /srv/models/*.gguf > /srv/broken/cut.gguf")
    host.ssh("chmod -R go+rX /srv/broken")
    host.small_disk(CACHE, "64k")
    good = host.sim("good", 18004)
    cut = host.llama("cut", 18001, "/srv/broken/cut.gguf")
    full = host.sim("full", 18002, program="sim-that-fills-a-disk")
    big = host.sim("big", 18003, program="sim-that-takes-memory", max_memory_bytes=1 << 28)
    results = host.apply(cut, full, big, good)
    assert results[good.name]["state"] == "ready"
    why = {name: results[one.name]["detail"] for name, one in (("cut", cut), ("full", full), ("big", big))}
    assert why["cut"].startswith("the model's file is damaged or cut off (it ended and was restarted ")
    assert "exit status 65" in why["cut"]
    assert "fetch it again" in why["cut"]
    assert "its last tensor begins at" in results[cut.name]["log_tail"]
    assert why["full"].startswith("a disk that it writes to is full (")
    assert why["big"].startswith(("the kernel killed it: it needed more host memory", "host memory ran out ("))
    for one in (cut, full, big):
        assert (results[one.name]["state"], results[one.name]["put_back"]) == ("failed", True)
        assert one.name in results.msg
    assert list(host.facts()) == [good.name]


def test_a_full_disk_of_llmgw_itself_leaves_what_runs_alone(host: EngineHost) -> None:
    host.small_disk(STATE, "16k")
    host.ssh(f"dd if=/dev/zero of={STATE}/full bs=4k count=8 status=none 2>/dev/null; true")
    old = host.sim("pretended", 18001)
    host.apply(old)
    pid = host.show(old.name, "MainPID")
    changed = host.sim("pretended", 18001, "--max-num-seqs", "3")
    results = host.apply(changed, state_dir=STATE)
    assert "cannot be written: the disk is full" in results.msg
    assert host.show(old.name, "MainPID") == pid
    assert host.serves(18001)
