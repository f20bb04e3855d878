# SPDX-License-Identifier: Apache-2.0
"""A simulator as a process of its own, and what tests ask of it beside its clients."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.gateway.harness import fetch

SIMULATOR = (
    Path(__file__).parents[2] / "collections/ansible_collections/llmgw/fleet/roles/engine/files/llmgw_sim/__main__.py"
)


class Simulator:
    """A simulator as a process of its own, faults allowed. Looks like a test's engine to the harness."""

    def __init__(self, model: str, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.host, self.model = "127.0.0.1", model
        self.url = f"http://{self.host}:{self.port}"
        arguments = ["--model", "weights", "--served-model-name", model, "--port", str(self.port), "--faults", *options]
        self.process = subprocess.Popen(
            [sys.executable, SIMULATOR, *arguments],
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        )

    def fault(self, **faults: object) -> None:
        """Misbehaves so from now on; without arguments it behaves."""
        status, _headers, body = fetch(f"{self.url}/sim/faults", "POST", json.dumps(faults).encode())
        assert status == 200, body

    def state(self) -> dict[str, Any]:
        """What it has seen and done."""
        found: dict[str, Any] = json.loads(fetch(f"{self.url}/sim/state")[2])
        return found

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(10)
