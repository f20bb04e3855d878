# SPDX-License-Identifier: Apache-2.0
"""What discovery costs: CPU of the module on a node with eight cards, and the time of a sweep over real hosts.

    python -m tests.bench.discovery [--rounds 5] [--hosts 16] [--forks 16]

The module runs as Ansible ships it, with nvidia-smi and NVML replaced by stand-ins. `cpu_s` is that of the module and
of all that it starts, `tools_s` what the stand-ins alone take when they are called by hand; `ping` is Ansible's
emptiest module, whose cost every module has. The sweep runs over hosts under systemd-nspawn (where those cannot run it
is left out and says so), beside `ansible -m setup` and a bare parallel ssh in the same run. Prints one JSON line a
measurement, then medians and ratios. A machine that does other work shows higher numbers; ratios hold better.
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
from pathlib import Path
from typing import Any

from tests.fleet.lab.hosts import Lab, Machine
from tests.fleet.lab.inventory import SSH_OPTIONS
from tests.fleet.lab.obstacles import obstacles
from tests.support import machines

PROJECT = Path(__file__).parents[2]
COLLECTIONS = PROJECT / "collections"
UTILS = COLLECTIONS / "ansible_collections/llmgw/fleet/plugins/module_utils"
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


def shipped(module: str, folder: Path, arguments: dict[str, Any]) -> Path:
    """The module as Ansible sends it to a node: one Python file that carries all it needs."""
    kept = environment(ANSIBLE_KEEP_REMOTE_FILES="1", ANSIBLE_PIPELINING="false", ANSIBLE_REMOTE_TEMP=str(folder))
    words = [ansible("ansible"), "localhost", "-m", module, *(["-a", json.dumps(arguments)] if arguments else [])]
    words += ["-e", f"ansible_python_interpreter={sys.executable}"]
    subprocess.run(words, env=kept, check=True, capture_output=True, timeout=TIMEOUT_S, cwd=folder)
    (found,) = folder.rglob("AnsiballZ_*.py")
    return found


def measured(words: list[str], setting: dict[str, str]) -> tuple[float, float, str]:
    """Wall seconds of a command, CPU seconds of it and of all it started, and what it printed."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        words, env=environment(**setting), check=False, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def on_a_node(rounds: int) -> None:
    """The module on a node with eight cards, everything and what a refresh reads; beside it Ansible's emptiest one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs, answers, library = folder / "bin", folder / "answers", folder / "library"
        machines.install(machines.HGX_H100, programs, answers)
        library.mkdir()
        (library / "pynvml.py").write_text(machines.pynvml(machines.HGX_H100, str(PROJECT)), encoding="utf-8")
        path = {"PATH": f"{programs}:{os.environ['PATH']}", "FAKE_NVIDIA_SMI": str(answers)}
        by_nvml = {**path, "PYTHONPATH": str(library)}
        key = json.loads(
            subprocess.run([sys.executable, "-c", _KEY], check=True, capture_output=True, timeout=60).stdout
        )
        refresh = {"gather": ["volatile"], "known_key": key}
        kinds: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
            "ping": ("ansible.builtin.ping", {}, path),
            "whole, nvidia-smi": (MODULE, {}, path),
            "whole, NVML": (MODULE, {}, by_nvml),
            "refresh, NVML": (MODULE, refresh, by_nvml),
        }
        medians: dict[str, dict[str, float]] = {}
        for number, (kind, (module_name, arguments, setting)) in enumerate(kinds.items()):
            target = folder / str(number)
            target.mkdir()
            module = shipped(module_name, target, arguments)
            command = [sys.executable, str(module)]
            measured(command, setting)  # once for the file cache
            rows = [measured(command, setting) for _round in range(rounds)]
            for wall, cpu, _answer in rows:
                say(measured="module", kind=kind, wall_s=round(wall, 3), cpu_s=round(cpu, 3))
            facts = json.loads(rows[-1][2]).get("ansible_facts", {}).get("llmgw", {})
            medians[kind] = {
                "wall_s": round(statistics.median(row[0] for row in rows), 3),
                "cpu_s": round(statistics.median(row[1] for row in rows), 3),
                "facts_bytes": len(json.dumps(facts)),
                "shipped_bytes": module.stat().st_size,
                "cards": len(facts.get("gpus") or ()),
            }
        asked = [["nvidia-smi", *name.split("_")] for name in ("-q_-x", "-L", "topo_-m", "nvlink_-s")]
        by_tool = sum(measured(words, path)[1] for words in asked)
        by_library = measured([sys.executable, str(UTILS / "discovery/nvml_dump.py")], by_nvml)[1]
        beyond = {kind: round(one["cpu_s"] - medians["ping"]["cpu_s"], 3) for kind, one in medians.items()}
        tools = {"nvidia-smi": round(by_tool, 3), "NVML": round(by_library, 3)}
        say(measured="module", medians=medians, cpu_s_beyond_ping=beyond, tools_s=tools)


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
            f"ssh {' '.join([*SSH_OPTIONS, *ssh_options])} root@{one} true" for one in lab.addresses.values()
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
        walls = {kind: round(statistics.median(values), 2) for kind, values in rows.items()}
        ratios = {kind: round(value / walls["setup"], 2) for kind, value in walls.items()}
        say(measured="sweep", hosts=hosts, forks=forks, median_wall_s=walls, ratio_to_setup=ratios)


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
