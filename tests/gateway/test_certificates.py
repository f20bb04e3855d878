# SPDX-License-Identifier: Apache-2.0
"""TLS between clients and the gateway, and another certificate without a restart."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from llmgw.errors import LlmgwError
from llmgw.gateway.processes.certificates import tls_context
from llmgw.model.replica import GatewaySpec
from tests.gateway.client import asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import CHUNKED, LAST_CHUNK, Request, Wire, chunk, event
from tests.gateway.harness import RunningGateway, bundle, endpoint, eventually, route
from tests.gateway.workers import LONG_S, Asking, workers

REFUSED = "gateway-reload-refused"
FAILURES = "llmgw_reload_failures_total"


def write_certificate(folder: Path, name: str) -> None:
    """A certificate of its own for 127.0.0.1, in place of the one that is there."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", folder / "key.new", "-out", folder / "cert.new"],
        check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    (folder / "key.new").replace(folder / "key.pem")
    (folder / "cert.new").replace(folder / "cert.pem")


def tls(folder: Path) -> dict[str, Any]:
    return {"tls_certificate": str(folder / "cert.pem"), "tls_key": str(folder / "key.pem")}


def trusting(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=folder / "cert.pem")


def connect(url: str, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=LONG_S)
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def certificate(url: str) -> bytes | None:
    """What a new connection is shown."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with connect(url, context) as secure:
        return secure.getpeercert(binary_form=True)


def shown_in(folder: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert((folder / "cert.pem").read_text())


def codes(findings: Any) -> list[str]:
    return [one["code"] for one in findings["findings"]]


def until(secure: ssl.SSLSocket, mark: bytes) -> bytes:
    got = b""
    while mark not in got:
        data = secure.recv(4096)
        assert data, got
        got += data
    return got


def test_one_process_shows_a_new_certificate_after_a_reload_and_lets_its_streams_go_on(
    tmp_path: Path, engine: MakeEngine
) -> None:
    write_certificate(tmp_path, "first")

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED + chunk(event("a")))
        wire.client_left(0.5)
        wire.send(chunk(event("b")) + LAST_CHUNK)

    spec = GatewaySpec(**tls(tmp_path), probe_interval_s=0.1)
    running = RunningGateway(tmp_path, bundle(1, [route([endpoint(engine(answer=answer))])], gateway=spec))

    def reload() -> None:
        asyncio.run_coroutine_threadsafe(running.gateway.reload(), running.loop).result(LONG_S)

    try:
        first = shown_in(tmp_path)
        with connect(running.url, trusting(tmp_path)) as secure:
            assert secure.version() in {"TLSv1.2", "TLSv1.3"}
            secure.sendall(post(asking(stream=True)))
            until(secure, event("a"))
            write_certificate(tmp_path, "second")
            assert certificate(running.url) == first
            reload()
            assert certificate(running.url) == shown_in(tmp_path) != first
            until(secure, LAST_CHUNK)
        second = shown_in(tmp_path)
        assert (codes(running.get("/api/v1/findings")), running.metrics()[FAILURES]) == ([], 0)
        key = (tmp_path / "key.pem").read_text()
        (tmp_path / "key.pem").write_text("no key at all")
        reload()
        assert certificate(running.url) == second
        (finding,) = running.get("/api/v1/findings")["findings"]
        assert (finding["code"], "\n" in finding["message"]) == (REFUSED, False)
        assert "key.pem: clients cannot be served over TLS" in finding["message"]
        assert running.metrics()[FAILURES] == 1
        (tmp_path / "key.pem").write_text(key)
        reload()
        assert (codes(running.get("/api/v1/findings")), running.metrics()[FAILURES]) == ([], 1)
    finally:
        running.stop()


def test_workers_show_a_new_certificate_after_a_reload_that_no_client_notices(
    tmp_path: Path, engine: MakeEngine
) -> None:
    write_certificate(tmp_path, "first")
    first, context = shown_in(tmp_path), trusting(tmp_path)
    with workers(tmp_path, [route([endpoint(engine())])], **tls(tmp_path)) as gateway:
        assert gateway.url.startswith("https://")
        assert certificate(gateway.url) == first
        write_certificate(tmp_path, "second")
        context.load_verify_locations(tmp_path / "cert.pem")
        clients = Asking(gateway.url, keeping=1, anew=1, context=context)
        gateway.reload()
        assert {certificate(gateway.url) for _number in range(8)} == {shown_in(tmp_path)}
        clients.stop()
        assert clients.failures == []
        assert clients.answered
        pids = gateway.pids()
        (tmp_path / "cert.pem").write_text("no certificate at all")
        os.kill(gateway.pid, signal.SIGHUP)
        eventually(lambda: "not reloaded" in "".join(gateway.log), "said in the log", LONG_S)
        assert gateway.pids() == pids
        assert certificate(gateway.url) != first
        (finding,) = gateway.get("findings")["findings"]
        assert (finding["code"], "cert.pem" in finding["message"]) == (REFUSED, True)
        eventually(lambda: gateway.metrics()[FAILURES] == 1, "counted, and kept when sums are made", LONG_S)
        gateway.publish([], **tls(tmp_path), workers=3)
        eventually(lambda: gateway.get("status")["generation"] == gateway.generation, "in force", LONG_S)
        remedies = {one["code"]: one["remedy"] for one in gateway.get("findings")["findings"]}
        assert remedies["gateway-restart-needed"] == "systemctl reload llmgw-gateway.service"


@pytest.mark.parametrize("broken", ["cert.pem", "key.pem"])
@pytest.mark.parametrize("how", ["gone", "text", "another's"])
def test_files_that_are_no_pair_are_an_error_with_a_fix(tmp_path: Path, broken: str, how: str) -> None:
    write_certificate(tmp_path, "first")
    if how == "gone":
        (tmp_path / broken).unlink()
    elif how == "text":
        (tmp_path / broken).write_text("nothing")
    else:
        before = (tmp_path / broken).read_text()
        write_certificate(tmp_path, "second")
        (tmp_path / broken).write_text(before)
    with pytest.raises(LlmgwError, match="over TLS") as refused:
        tls_context(GatewaySpec(**tls(tmp_path)))
    assert refused.value.code == "tls-unusable"
    assert refused.value.fix
    assert str(tmp_path / broken) in str(refused.value)
