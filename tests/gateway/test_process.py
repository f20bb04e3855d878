# SPDX-License-Identifier: Apache-2.0
"""The gateway as a process: starting, being told, stopping (G12)."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from llmgw.errors import LlmgwError
from llmgw.model.replica import GatewaySpec
from llmgw.routes.codec import dump_bundle
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import CHUNKED, LAST_CHUNK, Request, Wire, chunk, event
from tests.gateway.harness import RunningGateway, bundle, endpoint, environment, eventually, fetch, route, write

COMMAND = [sys.executable, "-c", "from llmgw.cli.gateway import app; app()"]


@contextmanager
def process(folder: Path, *more: str, **environ: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A started gateway and what it wrote when it was ready."""
    ready = folder / "ready.json"
    options = [
        "--bundle",
        folder / "bundle.json",
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--ready-file",
        ready,
    ]
    gateway = subprocess.Popen(
        [*COMMAND, *map(str, options), *more], env=environment() | environ, stderr=subprocess.PIPE, text=True
    )
    try:
        eventually(lambda: ready.exists() or gateway.poll() is not None, "ready", 20)
        yield gateway, json.loads(ready.read_text()) if ready.exists() else {}
    finally:
        gateway.kill()
        gateway.communicate(timeout=10)


def test_sigterm_lets_streams_finish_takes_no_new_connections_and_ends_with_0(
    tmp_path: Path, engine: MakeEngine
) -> None:
    go = threading.Event()

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED + chunk(event("a")))
        assert go.wait(10)
        wire.send(chunk(event("b")) + LAST_CHUNK)

    write(tmp_path / "bundle.json", dump_bundle(bundle(3, [route([endpoint(engine(answer=answer))])])))
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(10)
        with (
            process(tmp_path, NOTIFY_SOCKET=address) as (gateway, urls),
            Client(urls["url"]) as client,
            Client(urls["url"]) as idle,
        ):
            assert manager.recv(100) == b"READY=1"
            assert urls["pid"] == gateway.pid
            client.send(post(asking(stream=True)))
            client.until(event("a"))
            gateway.send_signal(signal.SIGTERM)
            assert manager.recv(100) == b"STOPPING=1"
            assert idle.rest() == b""
            eventually(lambda: not accepted(urls["url"]), "no new connections")
            assert json.loads(fetch(urls["admin_url"] + "/api/v1/status")[2])["draining"] is True
            time.sleep(0.3)
            assert gateway.poll() is None
            go.set()
            client.until(event("b"))
            client.until(LAST_CHUNK)
            assert gateway.wait(5) == 0
            _out, log = gateway.communicate()
    assert "Traceback" not in log
    assert urls["url"] in log
    assert urls["admin_url"] in log


def accepted(url: str) -> bool:
    try:
        fetch(url + "/healthz")
    except OSError:
        return False
    return True


def never_ends(left: threading.Event) -> Callable[[Request, Wire], None]:
    """A stream that goes on until its client leaves."""

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED + chunk(event("a")))
        if wire.client_left(10) is not None:
            left.set()
        wire.close()

    return answer


def test_draining_ends_with_its_timeout(tmp_path: Path, engine: MakeEngine) -> None:
    left = threading.Event()
    routes = [route([endpoint(engine(answer=never_ends(left)))])]
    running = RunningGateway(tmp_path, bundle(3, routes), drain_timeout_s=0.5)
    with Client(running.url) as client:
        client.send(post(asking(stream=True)))
        client.until(event("a"))
        began = time.monotonic()
        running.stop()
        assert 0.5 <= time.monotonic() - began < 10
        assert not client.rest().endswith(LAST_CHUNK)
    assert left.wait(5)


def test_a_second_signal_ends_draining(tmp_path: Path, engine: MakeEngine) -> None:
    left = threading.Event()
    write(tmp_path / "bundle.json", dump_bundle(bundle(3, [route([endpoint(engine(answer=never_ends(left)))])])))
    with process(tmp_path) as (gateway, urls), Client(urls["url"]) as client:
        client.send(post(asking(stream=True)))
        client.until(event("a"))
        gateway.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert gateway.poll() is None
        gateway.send_signal(signal.SIGTERM)
        assert not client.rest().endswith(LAST_CHUNK)
        assert left.wait(5)
        assert gateway.wait(5) == 0
        assert "cut off" in gateway.communicate()[1]


@pytest.mark.parametrize("listen", ["nonsense", "::1:80", "127.0.0.1", "127.0.0.1:70000", ":80", "127.0.0.1:x"])
def test_a_wrong_address_is_an_error_with_a_fix(tmp_path: Path, listen: str) -> None:
    with pytest.raises(LlmgwError, match="not HOST:PORT") as refused:
        RunningGateway(tmp_path, listen=listen)
    assert refused.value.fix


def test_a_port_in_use_ends_the_command_with_1_and_a_fix(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-m", "llmgw", "gateway", "--bundle", tmp_path / "b.json", "--listen", listen],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    assert done.returncode == 1
    assert "in use" in done.stderr
    assert "fix:" in done.stderr
    assert "Traceback" not in done.stderr


def test_listeners_come_from_the_bundle_where_no_option_names_them(tmp_path: Path) -> None:
    with socket.socket() as one, socket.socket() as two:
        for free in (one, two):
            free.bind(("127.0.0.1", 0))
        ports = [free.getsockname()[1] for free in (one, two)]
    spec = GatewaySpec(listen=f"127.0.0.1:{ports[0]}", admin_listen=f"127.0.0.1:{ports[1]}")
    running = RunningGateway(tmp_path, bundle(1, [], gateway=spec), listen=None, admin_listen=None)
    try:
        assert [fetch(f"http://127.0.0.1:{port}/healthz")[0] for port in ports] == [200, 200]
    finally:
        running.stop()


def test_tls_is_served_with_the_catalogs_certificate(tmp_path: Path, engine: MakeEngine) -> None:
    certificate, private = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", private, "-out", certificate],
        check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    spec = GatewaySpec(tls_certificate=str(certificate), tls_key=str(private))
    write(tmp_path / "bundle.json", dump_bundle(bundle(1, [route([endpoint(engine())])], gateway=spec)))
    with process(tmp_path) as (_gateway, urls):
        assert urls["url"].startswith("https://")
        context = ssl.create_default_context(cafile=certificate)
        port = int(urls["url"].rpartition(":")[2])
        with (
            socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        ):
            secure.sendall(post(asking(), CHAT, "connection: close\r\n"))
            answer = b""
            while data := secure.recv(4096):
                answer += data
        assert answer.startswith(b"HTTP/1.1 200")
