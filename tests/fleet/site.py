# SPDX-License-Identifier: Apache-2.0
"""A whole site on a lab: prepared nodes, a gateway, a fleet directory on the controller, and llmgw's own commands to
run it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai

from tests.fleet.lab.hosts import Lab

PROJECT = Path(__file__).parents[2]
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
GATEWAY = "n1"
GATEWAY_PORT = 8080

CATALOG = """\
version: 1
models:
  smollm2: {{path: {model}}}
  pretend: {{path: /dev/null}}
profiles:
  real: {{model: smollm2, engine: llama.cpp, devices: cpu, min_memory_gb: 0.5, max_model_len: 1024, parallel_requests:
  1, threads: 1}}
  fast: {{model: pretend, engine: sim, devices: cpu, args: [--load-seconds, "0.3", {fast_args}]}}
  slow: {{model: pretend, engine: sim, devices: cpu, args: [--load-seconds, "0.3", --itl-ms, "20"]}}
services:
{services}
gateway: {{listen: "0.0.0.0:8080", probe_interval: 0.5s}}
fleet: {{lost_after: {lost_after}}}
"""


@dataclass(frozen=True)
class Outcome:
    """What one command did."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Site:
    """The fleet directory and the commands of an operator."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder

    def catalog(self, *, fast_args: str = "", lost_after: str = "300s", **replicas: int) -> None:
        """Write a catalog: service name to number of replicas. `real` is served by llama.cpp, all others by the
        simulator.
        """
        profile = {"real": "real", "slow": "slow"}
        services = "".join(
            f"  {name}: {{profiles: [{profile.get(name, 'fast')}], replicas: {count}, drain_timeout: 20s}}\n"
            for name, count in sorted(replicas.items())
        )
        text = CATALOG.format(model=MODEL, services=services or "  {}\n", fast_args=fast_args, lost_after=lost_after)
        (self.folder / "catalog.yaml").write_text(text, encoding="utf-8")

    def llmgw(self, *arguments: str, timeout: float = 180) -> Outcome:
        """What one llmgw command printed and returned, run on the controller inside the lab."""
        command = [sys.executable, "-m", "llmgw", *arguments, "-i", str(self.folder)]
        done = self.lab.run(command, cwd=PROJECT, timeout=timeout)
        return Outcome(done.returncode, done.stdout, done.stderr)

    def apply(self, *arguments: str, status: int = 0) -> Outcome:
        """`llmgw apply`, which must end with that status."""
        done = self.llmgw("apply", *arguments)
        assert done.status == status, f"apply ended with {done.status}, not {status}:\n{done.out}\n{done.err}"
        return done

    def actions(self, *arguments: str) -> dict[str, str]:
        """Replica to kind of action, as `llmgw plan` says now, unchanged ones left out."""
        done = self.llmgw("plan", "--json", *arguments)
        assert done.status in (0, 3), done.err
        return {one["replica"]: one["kind"] for one in done.document["actions"] if one["kind"] != "keep"}

    def playbook(self, name: str, *arguments: str, status: int = 0, timeout: float = 180) -> str:
        """Output of `ansible-playbook playbooks/NAME.yml` from the checkout."""
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(self.folder / "hosts.yml")]
        environment = {"ANSIBLE_COLLECTIONS_PATH": str(PROJECT / "collections"), "ANSIBLE_NOCOLOR": "1"}
        done = self.lab.run(
            [*command, str(PROJECT / "playbooks" / f"{name}.yml"), *arguments],
            cwd=PROJECT,
            env=environment,
            timeout=timeout,
        )
        assert done.returncode == status, (
            f"{name} ended with {done.returncode}:\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
        )
        return done.stdout

    @contextmanager
    def client(self) -> Iterator[openai.OpenAI]:
        """The official client, pointed at the gateway."""
        url = f"http://{self.lab.addresses[GATEWAY]}:{GATEWAY_PORT}/v1"
        with self.lab.network(), openai.OpenAI(base_url=url, api_key="unused", max_retries=0, timeout=60) as client:
            yield client

    def units(self) -> dict[str, str]:
        """`unit@host` to the id of its running invocation, which changes with every start."""
        found = {}
        for host in self.lab.hosts:
            if not self.lab.running(host):
                continue
            command = "systemctl show 'llmgw-*.*.*.service' --property=Id,InvocationID,ActiveState --no-pager"
            text = self.lab.ssh(host, command, check=True).stdout
            for block in text.split("\n\n"):
                values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
                if values.get("ActiveState") == "active":
                    name = values["Id"].removesuffix(".service").removeprefix("llmgw-")
                    found[f"{name}@{host}"] = values["InvocationID"]
        return found

    def endpoints(self) -> dict[str, str]:
        """Endpoint to state, as the gateway tells it."""
        url = "http://127.0.0.1:8081/api/v1/endpoints"
        command = f"python3 -c \"import urllib.request as u; print(u.urlopen('{url}', timeout=5).read().decode())\""
        document = json.loads(self.lab.ssh(GATEWAY, command, check=True).stdout)
        return {one["id"]: one["state"] for one in document["endpoints"]}


def recap(output: str) -> dict[str, dict[str, int]]:
    """Host to counters of Ansible's PLAY RECAP."""
    lines = re.findall(r"^(\S+)\s+: (ok=.*)$", output, re.MULTILINE)
    return {host: {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", counters)} for host, counters in lines}


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Until the condition holds; fails the test with `what` when it does not within the time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds:g} s for {what}"
        time.sleep(0.3)


def build_wheel(folder: Path) -> Path:
    """The project's wheel."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    return wheel
