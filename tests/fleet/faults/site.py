# SPDX-License-Identifier: Apache-2.0
"""The site that the faults meet: a gateway, three nodes, and one service, of simulators or of a real engine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from llmgw.apply.history import RUNNING, directory_of, read
from tests.fleet.faults.inside import Inside
from tests.fleet.faults.sampling import Sample
from tests.fleet.faults.steps import KEYS, LOCK, SERVICE, Before, Shape
from tests.fleet.lab.hosts import Lab
from tests.fleet.site import GATEWAY, GATEWAY_PORT, MODEL, PROJECT, Outcome, Site, build_wheel

LOAD_S = 0.8
TOKENS, TOKEN_MS = 40, 25

CATALOG = """\
version: 1
models:
  smollm2: {{path: {model}}}
  pretend: {{path: /dev/null}}
profiles:
  real: {{model: smollm2, engine: llama.cpp, devices: cpu, min_memory_gb: 0.5, max_model_len: {argument},
    parallel_requests: 1, threads: 1}}
  sim: {{model: pretend, engine: sim, devices: cpu, ready_timeout: 20s, start_timeout: 10s, args: [--load-seconds,
    "{load}", --itl-ms, "{itl}", --ttft-ms, "{argument}"{more}]}}
services:
  {service}: {{profiles: [{profile}], replicas: {replicas}, drain_timeout: 10s, rollout: {{max_unavailable: {away},
    max_surge: 0}}}}
gateway: {{listen: "0.0.0.0:8080", probe_interval: 0.5s, timeouts: {{connect: 1s, first_byte: 20s, idle: 20s}}}}
"""


class FaultSite:
    """The fleet directory of the site, its catalogs, and what is really on its hosts."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.inside = Inside(lab)
        self.commands = Site(lab, folder)
        self.nodes = tuple(host for host in lab.hosts if host != GATEWAY)
        self.shape: Shape | None = None
        """What the hosts are known to have; None: anything."""

    def prepare(self, wheel_folder: Path) -> None:
        """Writes the inventory and prepares nodes and gateway."""
        folder = self.commands.folder
        groups: dict[str, Sequence[str]] = {"fleet": self.lab.hosts, "gateway": [GATEWAY]}
        # The gateway's host runs no engines, so that no fault of a node meets it.
        self.lab.inventory(folder / "hosts.yml", groups=groups, host_vars={GATEWAY: {"llmgw_cordoned": True}})
        (folder / "group_vars").mkdir()
        variables = {
            "llmgw_wheelhouse": "/opt/wheels",
            "llmgw_wheel": str(build_wheel(wheel_folder)),
            "llmgw_model_dirs": ["/srv/models"],
            "llmgw_gateway_listen": "0.0.0.0:8080",
        }
        (folder / "group_vars" / "all.json").write_text(json.dumps(variables))
        self.write(Shape(0))
        self.commands.playbook("prepare", timeout=280)
        self.commands.playbook("gateway", timeout=280)

    def write(self, shape: Shape) -> None:
        """Writes the catalog of a shape."""
        text = CATALOG.format(
            model=MODEL,
            service=SERVICE,
            replicas=shape.replicas,
            away=shape.max_unavailable,
            load=LOAD_S,
            itl=TOKEN_MS,
            argument=shape.argument,
            more=f', --api-key-file, "{KEYS}"' if shape.broken else "",
            profile="real" if shape.real else "sim",
        )
        (self.commands.folder / "catalog.yaml").write_text(text, encoding="utf-8")
        # What fails of a broken shape is one replica of the two that are replaced at once.
        for host in self.nodes:
            missing = shape.broken and f"{SERVICE}.1.0" in self.inside.commands(host)
            keys = self.inside.path(host, KEYS)
            if missing:
                keys.unlink(missing_ok=True)
            else:
                keys.touch()

    def ensure(self, replicas: int, *, real: bool = False) -> Shape:
        """The site with that many replicas, applied and converged, if it is not so already."""
        shape = self.shape
        if shape is None or (shape.replicas, shape.real) != (replicas, real) or shape.broken:
            self.shape = None
            shape = Shape(replicas, shape.variant if shape else 0, real=real)
            self.write(shape)
            done = self.apply()
            assert done.status == 0, f"the site cannot be brought to a known state:\n{done.out}\n{done.err}"
            self.shape = shape
        return shape

    def clear(self) -> None:
        """The hosts as they were before the site was made."""
        self.ensure(0)
        for host in self.nodes:
            self.inside.path(host, KEYS).unlink(missing_ok=True)

    def apply(self) -> Outcome:
        """One `llmgw apply` to its end, whatever its status."""
        return self.commands.llmgw("apply", timeout=240)

    def start_apply(self, log: Path) -> subprocess.Popen[str]:
        """An `llmgw apply` in the background, its output in a file."""
        command = [sys.executable, "-m", "llmgw", "apply", "-i", str(self.commands.folder)]
        with log.open("w") as out:
            return self.lab.popen(command, cwd=PROJECT, stdout=out, stderr=subprocess.STDOUT)

    def recover(self) -> None:
        """Hosts with power, warm, and on the network, whatever a cell left."""
        self.shape = None
        for host in self.nodes:
            self.lab.thaw(host)
            if not self.lab.running(host):
                self.lab.start(host)
            self.inside.signal_program(host, "sshd", signal.SIGCONT)

    @property
    def url(self) -> str:
        """The gateway, as clients know it."""
        return f"http://{self.lab.addresses[GATEWAY]}:{GATEWAY_PORT}/v1"

    def before(self, shape: Shape, generation: int) -> Before:
        """What is there now."""
        return Before(
            units={host: set(self.inside.commands(host)) for host in self.nodes},
            locks={host: self.inside.changed_at(host, LOCK) for host in self.nodes},
            generation=generation,
            argument=shape.argument,
        )

    def planned(self) -> tuple[dict[str, str], set[str]]:
        """What `llmgw plan` says: replicas to kinds of action where something is to do, and the units that it wants."""
        done = self.commands.llmgw("plan", "--json")
        if done.status not in (0, 3):
            return {"plan": f"status {done.status}: {done.err}"}, set()
        actions = done.document["actions"]
        open_ = {one["replica"]: one["kind"] for one in actions if one["kind"] != "keep"}
        if done.status == 3:
            open_["unplaced"] = str(done.document.get("unplaced"))
        if done.document.get("waves"):
            open_.setdefault("waves", str([wave["title"] for wave in done.document["waves"]]))
        wanted = {
            f"{one['replica'].replace('/', '.')}.{rank}@{node}"
            for one in actions
            for rank, node in enumerate(one["nodes"])
        }
        return open_, wanted

    def present(self) -> tuple[set[str], set[str]]:
        """Units whose files are on the nodes, and units that have processes there, as `chat.0.0@n2`."""
        files, running = set(), set()
        for host in self.nodes:
            for path in self.inside.path(host, "/etc/systemd/system").glob("llmgw-*.*.*.service"):
                files.add(f"{path.name.removeprefix('llmgw-').removesuffix('.service')}@{host}")
            running |= {f"{unit}@{host}" for unit in self.inside.commands(host)}
        return files, running

    def differences(self, wanted: set[str], sample: Sample) -> list[str]:
        """In what way the nodes and the gateway are not as planned, a sentence each."""
        found = []
        files, running = self.present()
        for what, there in (("unit files", files), ("running units", running)):
            if there != wanted:
                found.append(f"{what}: {sorted(there - wanted)} too many, {sorted(wanted - there)} missing")
        for host in self.nodes:
            engines = self.inside.engines(host)
            expected = sum(one.startswith(f"{SERVICE}.") and one.endswith(f"@{host}") for one in wanted)
            if engines != expected:
                found.append(f"{host} has {engines} engines, not {expected}")
        ready = {name for name, one in sample.endpoints.items() if one.available}
        named = {_endpoint(one) for one in wanted}
        if ready != named or sample.endpoints.keys() != named:
            states = {name: one.state for name, one in sample.endpoints.items()}
            found.append(f"the gateway has {states}, all of {sorted(named)} should be ready")
        return [*found, *self.history_problems()]

    def history_problems(self) -> list[str]:
        """What is wrong with the history of applies: files that are none, and applies that are said to run still."""
        history = read(directory_of(self.commands.folder / "facts"), time.time())
        found = [str(problem) for problem in history.problems]
        found += [f"apply {one.id} is said to run" for one in history.records if one.outcome == RUNNING]
        return found


def _endpoint(unit: str) -> str:
    """The endpoint chat/0@n2 of the unit chat.0.0@n2."""
    name, _, host = unit.partition("@")
    service, number, _rank = name.split(".")
    return f"{service}/{number}@{host}"
