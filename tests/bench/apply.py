# SPDX-License-Identifier: Apache-2.0
"""What an apply costs beyond looking at the fleet: nothing to do, and a rolling update, over real hosts.

    python -m tests.bench.apply [--hosts 16] [--units 8] [--rounds 3] [--forks 16]

Hosts under systemd-nspawn run simulators, and the first of them a gateway. In every round a bare sweep (the playbook
discover) and an apply of the catalog that is carried out already take turns, so that both meet the same load. Then one
argument of the service changes, and an apply replaces all its replicas, a replica of every host in a wave. `cpu_s` is
that of Ansible on the controller; the hosts' own work comes on top, on this same machine. Prints one JSON line a
measurement, then medians and ratios: these hold better than seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.fleet.lab.hosts import Lab
from tests.fleet.lab.obstacles import obstacles
from tests.fleet.site import GATEWAY, PROJECT, build_wheel

TIMEOUT_S = 1800
_AT_ONCE = 4
_INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
_INOTIFY_OF_A_HOST = 64
CATALOG = """\
version: 1
models: {{pretend: {{path: /dev/null}}}}
profiles:
  sim: {{model: pretend, engine: sim, devices: cpu, min_memory_gb: 0.05, args: [--load-seconds, "0.1", --ttft-ms,
    "{ttft}"]}}
services:
  sim: {{profiles: [sim], replicas: {replicas}, drain_timeout: 10s, rollout: {{max_unavailable: {away}, max_surge: 0}}}}
gateway: {{listen: "0.0.0.0:8080", probe_interval: 0.5s}}
"""


@contextmanager
def room_for(hosts: int) -> Iterator[None]:
    """As many inotify instances as that many systemds take, which may be more than the kernel gives one user."""
    before = int(_INOTIFY.read_text())
    _INOTIFY.write_text(str(max(before, hosts * _INOTIFY_OF_A_HOST)))
    try:
        yield
    finally:
        _INOTIFY.write_text(str(before))


class Gentle(Lab):
    """A lab whose hosts boot a few at a time, for a machine that does other work."""

    def start(self, *hosts: str) -> None:
        for first in range(0, len(hosts), _AT_ONCE):
            super().start(*hosts[first : first + _AT_ONCE])


class Cost(NamedTuple):
    """What one command took."""

    wall_s: float
    cpu_s: float


class Bench:
    """A fleet directory on a lab, and the commands that are measured."""

    def __init__(self, lab: Lab, folder: Path, forks: int) -> None:
        self._lab = lab
        self._folder = folder
        self._environment = {
            "ANSIBLE_COLLECTIONS_PATH": str(PROJECT / "collections"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_FORKS": str(forks),
        }

    def prepare(self, wheel: Path) -> None:
        """Simulators on every host, and the gateway."""
        fleet = {"fleet": self._lab.hosts, "gateway": [GATEWAY]}
        self._lab.inventory(self._folder / "hosts.yml", groups=fleet)
        variables = {
            "llmgw_wheelhouse": "/opt/wheels",
            "llmgw_wheel": str(wheel),
            "llmgw_engine_kinds": ["sim"],
            "llmgw_gateway_listen": "0.0.0.0:8080",
        }
        (self._folder / "group_vars").mkdir()
        (self._folder / "group_vars" / "all.json").write_text(json.dumps(variables))
        for name in ("prepare", "gateway"):
            self.playbook(name)

    def catalog(self, replicas: int, away: int, ttft: int) -> None:
        """The catalog to apply next."""
        text = CATALOG.format(replicas=replicas, away=away, ttft=ttft)
        (self._folder / "catalog.yaml").write_text(text, encoding="utf-8")

    def playbook(self, name: str) -> Cost:
        """One run of a playbook."""
        program = str(Path(sys.executable).parent / "ansible-playbook")
        return self._run([program, "-i", str(self._folder / "hosts.yml"), str(PROJECT / "playbooks" / f"{name}.yml")])

    def waves(self) -> int:
        """How many waves the plan has that would be carried out now."""
        words = [sys.executable, "-m", "llmgw", "plan", "--json", "-i", str(self._folder)]
        done = self._lab.run(words, cwd=PROJECT, timeout=TIMEOUT_S, check=True)
        return len(json.loads(done.stdout)["waves"])

    def _run(self, words: Sequence[str]) -> Cost:
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        self._lab.run(words, cwd=PROJECT, env=self._environment, timeout=TIMEOUT_S, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Cost(round(time.monotonic() - begun, 2), round(cpu, 2))


def say(**row: object) -> None:
    """One line of the result."""
    print(json.dumps(row), flush=True)  # noqa: T201 - its result


def nothing_to_do(bench: Bench, rounds: int) -> None:
    """A bare sweep and an apply without anything to do, in turns."""
    costs: dict[str, list[Cost]] = {"discover": [], "apply": []}
    for number in range(rounds + 1):
        for name, found in costs.items():
            cost = bench.playbook(name)
            if number:  # the first round opens the connections and fills caches
                found.append(cost)
                say(measured="nothing to do", playbook=name, **cost._asdict())
    walls = {name: statistics.median(one.wall_s for one in found) for name, found in costs.items()}
    cpus = {name: statistics.median(one.cpu_s for one in found) for name, found in costs.items()}
    say(
        measured="nothing to do",
        median_wall_s=walls,
        median_cpu_s=cpus,
        ratio_wall=round(walls["apply"] / walls["discover"], 2),
        ratio_cpu=round(cpus["apply"] / cpus["discover"], 2),
    )


def measure(hosts: int, units: int, rounds: int, forks: int) -> None:
    """Everything, in one lab."""
    with room_for(hosts), Gentle(hosts) as lab, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench = Bench(lab, folder / "fleet", forks)
        (folder / "fleet").mkdir()
        bench.prepare(build_wheel(folder))
        bench.catalog(hosts * units, hosts, ttft=5)
        first = bench.playbook("apply")
        say(measured="first apply", hosts=hosts, units=units, forks=forks, **first._asdict())
        nothing_to_do(bench, rounds)
        bench.catalog(hosts * units, hosts, ttft=6)
        waves = bench.waves()
        sweep, rolled = bench.playbook("discover"), bench.playbook("apply")
        of_a_wave = Cost(*(round((whole - part) / waves, 2) for whole, part in zip(rolled, sweep, strict=True)))
        say(measured="rolling update", hosts=hosts, units=units, waves=waves, **rolled._asdict())
        say(measured="rolling update", a_wave=of_a_wave._asdict())


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--units", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--forks", type=int, default=16)
    options = parser.parse_args()
    os.chdir(PROJECT)
    if shutil.which("ssh") is None:
        parser.error("ssh is not installed")
    found = obstacles()
    if found:
        say(measured="apply", left_out="; ".join(found))
        return
    measure(options.hosts, options.units, options.rounds, options.forks)


if __name__ == "__main__":
    main()
