# SPDX-License-Identifier: Apache-2.0
"""Engine programs as child processes on free ports of 127.0.0.1, and what tests ask of them."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FILES = Path(__file__).parents[3] / "collections/ansible_collections/llmgw/fleet/roles/engine/files"
SIM = FILES / "llmgw_sim"
LLAMA_SERVER = FILES / "llama_server.py"
QUICK = ("--model", "m", "--ttft-ms", "1", "--itl-ms", "1", "--faults")
"""A simulator of the model `m` that nobody waits for, with /sim."""
WAIT_S = 45.0


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(what: str, check: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
    """Returns once `check` is true; fails with `what` when it is not in time."""
    deadline = time.monotonic() + timeout_s
    while not check():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.01)


class Program:
    """A running engine program: its process, its log as it comes, and requests to its port."""

    def __init__(
        self, program: Path, *args: str, python: str = sys.executable, env: dict[str, str] | None = None
    ) -> None:
        self.port = free_port()
        # llama.cpp says that it listens before its launcher heeds signals.
        self._name = "llama-server" if program == LLAMA_SERVER else ""
        self.log: list[str] = []
        self._grown = threading.Condition()
        self.process = subprocess.Popen(
            [python, "-B", str(program), "--port", str(self.port), *args],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            with self._grown:
                self.log.append(line)
                self._grown.notify_all()
        with self._grown:
            self.log.append("")  # the end
            self._grown.notify_all()

    def wait_for_log(self, text: str, timeout_s: float = WAIT_S) -> None:
        """Returns once a line of the log has the text."""
        with self._grown:
            seen = self._grown.wait_for(
                lambda: any(text in line for line in self.log) or self.log[-1:] == [""], timeout_s
            )
        assert seen, f"nothing said {text!r} within {timeout_s:g} s"
        assert any(text in line for line in self.log), f"ended without {text!r}: {''.join(self.log[-20:])}"

    def ready(self) -> Program:
        """This program, once it listens."""
        self.wait_for_log(f"{self._name}: listening on")
        return self

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Status and body of one request; the body as JSON where it is some."""
        connection = self.connect()
        try:
            data = body if isinstance(body, bytes) or body is None else json.dumps(body)
            connection.request(method, path, data, {key.replace("_", "-"): value for key, value in headers.items()})
            response = connection.getresponse()
            raw = response.read()
            whole = response.headers.get_content_type() == "application/json"
            return response.status, json.loads(raw) if whole else raw.decode()
        finally:
            connection.close()

    def connect(self) -> http.client.HTTPConnection:
        """A new connection to the program."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)

    def state(self) -> dict[str, Any]:
        """What the simulator tells about itself."""
        status, body = self.ask("GET", "/sim/state")
        assert status == 200
        assert isinstance(body, dict)
        return body

    @contextmanager
    def stream(self, path: str, body: dict[str, Any], **headers: str) -> Iterator[http.client.HTTPResponse]:
        """The response of a streaming request whose header has arrived; leaving hangs up."""
        connection = self.connect()
        try:
            connection.request("POST", path, json.dumps({**body, "stream": True}), headers)
            yield connection.getresponse()
        finally:
            connection.close()

    def terminate(self) -> None:
        """Sends SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def exit_status(self, timeout_s: float = WAIT_S) -> int:
        """The status that the program ends with, its log read to the end."""
        status = self.process.wait(timeout_s)
        self._reader.join(timeout_s)
        return status

    def end(self) -> None:
        """Ends the program whatever it does, and frees what it held here."""
        self.process.kill()
        self.exit_status()
        assert self.process.stderr
        self.process.stderr.close()


def events(response: http.client.HTTPResponse) -> list[Any]:
    """The events that are left of a stream; documents as JSON, [DONE] as it is."""
    data = [line[6:].strip().decode() for line in response if line.startswith(b"data: ")]
    return [item if item == "[DONE]" else json.loads(item) for item in data]
