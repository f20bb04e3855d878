# SPDX-License-Identifier: Apache-2.0
"""What is measured: how each gateway is started in front of engines on ports of this host."""

from __future__ import annotations

import http.client
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.bench import gateway_nginx
from tests.bench.gateway_bundle import KEY, Features, endpoints, write
from tests.bench.gateway_load import PATH, body
from tests.bench.gateway_process import MEASURED_CPU, Program, free_port, running

LLMGW, SGLANG, VLLM, NGINX = "llmgw", "sglang-router", "vllm-router", "nginx"
READY_WITHIN_S = 90.0

Command = Callable[[Path, int, Sequence[int]], list[str]]
"""The command line for a folder of its own, the port to listen on, and the engines' ports."""


@dataclass(frozen=True, slots=True)
class Target:
    """One gateway to measure."""

    name: str
    command: Command


@dataclass(frozen=True, slots=True)
class Running:
    """A gateway that has answered."""

    program: Program
    port: int


class NotReadyError(Exception):
    """A target that does not answer."""


def llmgw(features: Features | None = None, name: str = LLMGW, classes: Sequence[str | None] = ()) -> Target:
    """llmgw from this tree; with every feature on where nothing else is said."""

    def command(folder: Path, port: int, engines: Sequence[int]) -> list[str]:
        path = write(folder, endpoints(engines, classes), features or Features())
        listen = ["--listen", f"127.0.0.1:{port}", "--admin-listen", "127.0.0.1:0"]
        return [sys.executable, "-m", "llmgw", "gateway", "--bundle", str(path), *listen, "--drain-timeout", "1"]

    return Target(name, command)


def nginx() -> Target:
    """nginx as a proxy: the floor."""
    return Target(NGINX, gateway_nginx.proxy)


def router(name: str, peers: Path, *more: str) -> Target:
    """A Rust router from the environment `peers`, with the policy that knows of prefix caches; `more`: its options."""
    start = {
        SGLANG: [str(peers / "bin/python"), "-m", "sglang_router.launch_router", "--log-level", "warn"],
        VLLM: [str(peers / "bin/vllm-router")],
    }
    return Target(name, partial(_router_command, [*start[name], *more]))


def _router_command(start: list[str], folder: Path, port: int, engines: Sequence[int]) -> list[str]:
    del folder
    urls = [f"http://127.0.0.1:{engine}" for engine in engines]
    listen = ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(free_port())]
    return [*start, *listen, "--policy", "cache_aware", "--worker-urls", *urls]


def found(peers: Path, wanted: Sequence[str]) -> tuple[list[Target], list[str]]:
    """The targets among `wanted` that this machine can run, and the names of those it cannot, with the reason."""
    able: list[Target] = []
    unable: list[str] = []
    for name in wanted:
        if name == LLMGW:
            able.append(llmgw())
        elif name == NGINX:
            able.append(nginx())
        elif (peers / "bin" / ("vllm-router" if name == VLLM else "python")).exists():
            able.append(router(name, peers))
        else:
            unable.append(f"{name}: not in {peers} (scripts/gateway-peers installs it)")
    return able, unable


@contextmanager
def started(target: Target, folder: Path, engines: Sequence[int], cpus: str = MEASURED_CPU) -> Iterator[Running]:
    """The target, pinned to `cpus`, once it has answered a chat request with 200. Raises NotReadyError."""
    port = free_port()
    own = folder / target.name.replace(" ", "-")
    own.mkdir(exist_ok=True)
    log_path = own / "log"
    with log_path.open("ab") as log, running(cpus, target.command(own, port, engines), log) as program:
        end = time.monotonic() + READY_WITHIN_S
        while not answers(port):
            if time.monotonic() > end or program.process.poll() is not None:
                said = "".join(log_path.read_text(errors="replace").splitlines(keepends=True)[-20:])
                raise NotReadyError(f"{target.name} did not become ready; it said last:\n{said}")
            time.sleep(0.2)
        yield Running(program, port)


def answers(port: int) -> bool:
    """Whether a chat request is answered with 200; the rest of the answer is left, as it may have no end."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
    try:
        connection.request("POST", PATH, body(stream=True), headers)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
