# SPDX-License-Identifier: Apache-2.0
"""What discovery costs: CPU of the module on a node with eight cards, and the time of a sweep over real hosts.

    python -m tests.bench.discovery [--rounds 5] [--hosts 16] [--forks 16]

The module runs as Ansible ships it, with nvidia-smi and its like replaced by programs that print a file, whole and in
part. CPU is that of the module's process and of all it starts; that of the programs alone is measured beside it and
taken off. The sweep runs over that many hosts under systemd-nspawn (where those cannot run it is left out and says so),
beside `ansible -m setup` and a bare parallel ssh in the same run. Prints one JSON line a measurement, then
medians and ratios. A machine that does other work shows higher numbers; ratios hold better.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fleet.lab.hosts import Lab, Machine
from tests.fleet.lab.obstacles import obstacles
from tests.support import machines

PROJECT = Path(__file__).parents[2]
COLLECTIONS = PROJECT / "collections"
MODULE = "llmgw.fleet.node_facts"
TIMEOUT_S = 300


def say(**row: object) -> None:
    """One line of the result."""
    print(json.dumps(row), flush=True)  # noqa: T201 - its result


def environment(**more: str) -> dict[str, str]:
    """Ansible as `llmgw` sets it up, and quiet."""
    return {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "0",
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_NOCOLOR": "1",
        **more,
    }


def ansible(name: str) -> str:
    """A program of Ansible's, from this interpreter's environment."""
    return str(Path(sys.executable).parent / name)


def shipped(folder: Path, arguments: dict[str, Any]) -> Path:
    """The module as Ansible sends it to a node: one Python file that carries all it needs."""
    kept = environment(ANSIBLE_KEEP_REMOTE_FILES="1", ANSIBLE_PIPELINING="false", ANSIBLE_REMOTE_TEMP=str(folder))
    words = [ansible("ansible"), "localhost", "-m", MODULE, *(["-a", json.dumps(arguments)] if arguments else [])]
    words += ["-e", f"ansible_python_interpreter={sys.executable}"]
    subprocess.run(words, env=kept, check=True, capture_output=True, timeout=TIMEOUT_S, cwd=folder)
    (found,) = folder.rglob("AnsiballZ_node_facts.py")
    return found


def used(action: Callable[[], object]) -> tuple[float, float]:
    """Wall seconds of an action and CPU seconds of the processes that it waited for."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    action()
    wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(words: list[str], **more: str) -> Callable[[], object]:
    """A command that must succeed."""
    return lambda: subprocess.run(words, env=environment(**more), check=True, capture_output=True, timeout=TIMEOUT_S)


def on_a_node(rounds: int) -> None:
    """The module on a node with eight cards: everything, and what a refresh reads."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs, answers = folder / "bin", folder / "answers"
        machines.install(machines.HGX_H100, programs, answers)
        path = {"PATH": f"{programs}:{os.environ['PATH']}", "FAKE_NVIDIA_SMI": str(answers)}
        key = json.loads(
            subprocess.run(
                [sys.executable, "-c", _KEY], env=environment(), check=True, capture_output=True, timeout=60
            ).stdout
        )
        kinds = {"whole": {}, "refresh": {"gather": ["volatile"], "known_key": key}}
        medians: dict[str, dict[str, float]] = {}
        for kind, arguments in kinds.items():
            target = folder / kind
            target.mkdir()
            module = shipped(target, arguments)
            command = [sys.executable, str(module)]
            run(command, **path)()  # once for the file cache
            rows = [used(run(command, **path)) for _round in range(rounds)]
            facts = json.loads(
                subprocess.run(
                    command, env=environment(**path), check=True, capture_output=True, timeout=TIMEOUT_S
                ).stdout
            )["ansible_facts"]["llmgw"]
            for wall, cpu in rows:
                say(measured="module", kind=kind, wall_s=round(wall, 3), cpu_s=round(cpu, 3))
            medians[kind] = {
                "wall_s": round(statistics.median(wall for wall, _cpu in rows), 3),
                "cpu_s": round(statistics.median(cpu for _wall, cpu in rows), 3),
                "facts_bytes": len(json.dumps(facts)),
                "shipped_bytes": module.stat().st_size,
                "cards": len(facts["gpus"]),
            }
        asked = [line.split("/")[-1] for line in sorted(map(str, answers.iterdir()))]
        tools = [used(run([str(programs / "nvidia-smi"), *one.split("_")], **path))[1] for one in asked]
        bare = statistics.median(used(run([sys.executable, "-c", "pass"]))[1] for _round in range(rounds))
        say(measured="module", medians=medians, stand_ins_cpu_s=round(sum(tools), 3), bare_python_cpu_s=round(bare, 3))


_KEY = """
import json, sys
sys.path.insert(0, "collections")
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.node import hardware_key
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
print(json.dumps(hardware_key(Host())))
"""


def over_hosts(hosts: int, forks: int, rounds: int) -> None:
    """A sweep over real hosts, each with eight cards by a stand-in."""
    found = obstacles()
    if found:
        say(measured="sweep", left_out="; ".join(found))
        return
    fleet = [Machine(f"n{number}", machines.files(machines.HGX_H100)) for number in range(1, hosts + 1)]
    with Lab(fleet) as lab, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inventory = lab.inventory(folder / "hosts.yml")
        ssh_options = ["-o", "BatchMode=yes", "-i", str(lab.key)]
        adhoc = [ansible("ansible"), "fleet", "-i", str(inventory), "-f", str(forks), "-m"]
        script = " & ".join(
            f"ssh {' '.join([*machines.SSH, *ssh_options])} root@{one} true" for one in lab.addresses.values()
        )
        refresh = [sys.executable, "-m", "llmgw", "facts", "refresh", "-i", str(folder)]
        sweeps = {
            "ssh": ["sh", "-c", f"{script} & wait"],
            "setup": [*adhoc, "setup"],
            "node_facts": [*adhoc, MODULE],
            "node_facts, volatile": [*adhoc, MODULE, "-a", json.dumps({"gather": ["volatile"]})],
            "llmgw facts refresh": refresh,
        }
        more = environment(ANSIBLE_FORKS=str(forks))
        rows: dict[str, list[float]] = {kind: [] for kind in sweeps}
        for number in range(rounds + 1):
            for kind, words in sweeps.items():
                begun = time.monotonic()
                lab.run(words, env=more, cwd=PROJECT, timeout=TIMEOUT_S, check=True)
                if number:  # the first round opens the connections and fills caches
                    rows[kind].append(time.monotonic() - begun)
                    say(measured="sweep", kind=kind, hosts=hosts, forks=forks, wall_s=round(rows[kind][-1], 2))
        medians = {kind: round(statistics.median(values), 2) for kind, values in rows.items()}
        ratios = {kind: round(value / medians["setup"], 2) for kind, value in medians.items()}
        say(measured="sweep", hosts=hosts, forks=forks, median_wall_s=medians, ratio_to_setup=ratios)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--forks", type=int, default=16)
    options = parser.parse_args()
    os.chdir(PROJECT)
    if shutil.which("ssh") is None:
        parser.error("ssh is not installed")
    on_a_node(options.rounds)
    over_hosts(options.hosts, options.forks, max(1, options.rounds - 2))


if __name__ == "__main__":
    main()
