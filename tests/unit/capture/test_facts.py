# SPDX-License-Identifier: Apache-2.0
"""A capture gives the facts that the machine gave, wherever it is read (D16)."""

from __future__ import annotations

import ast
import inspect
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import fields, replace
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import discovery
from ansible_collections.llmgw.fleet.plugins.module_utils.capture import loading, saving, taking
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.errors import CaptureError
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.node import DEFAULT_TIMEOUT_S, Options
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from tests.support.captured_machine import machine, options
from tests.support.fake_host import FakeHost
from tests.unit.capture.plain import plain

ROOT = Path(__file__).resolve().parents[3]
TOUCHING = {"pathlib", "subprocess", "shutil", "glob", "io", "platform", "urllib", "http", "getpass", "pwd", "tempfile"}
REPLAY = """
import json, os, sys
from dataclasses import asdict
from ansible_collections.llmgw.fleet.plugins.module_utils.capture import loading, taking
taking.facts_in(loading.load(sys.argv[1]))  # imports all that it needs, which the other user may not read
os.setgid(65534)
os.setuid(65534)
print(json.dumps(asdict(taking.facts_in(loading.load(sys.argv[1]), "1.2.3"))))
"""


def test_a_capture_gives_the_facts_of_its_machine(tmp_path: Path) -> None:
    recording, facts = taking.take(machine(), options())
    assert [one.device_class for one in facts.gpus or ()] == ["h100-80g"]
    assert [one.ready for one in facts.units or ()] == [True]
    assert facts.gateway is not None
    assert facts.gateway.generation == 12
    saving.save(recording, str(tmp_path / "c.tar.gz"), "n1")
    loaded = loading.load(str(tmp_path / "c.tar.gz"))
    assert loaded == recording
    assert plain(taking.facts_in(loaded, "1.2.3")) == plain(facts)
    assert plain(taking.facts_in(loaded, "1.2.3")) == plain(facts), "a recording can be replayed again"


def test_an_unpacked_capture_and_the_folder_around_it_are_captures_too(tmp_path: Path) -> None:
    recording, _facts = taking.take(machine(), options())
    saving.save(recording, str(tmp_path / "c.tar.gz"), "n1")
    with tarfile.open(tmp_path / "c.tar.gz") as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    assert loading.load(str(tmp_path / "unpacked/n1")) == recording
    assert loading.load(str(tmp_path / "unpacked")) == recording
    assert (tmp_path / "unpacked/n1/commands/nvidia-smi_-q_-x.txt").read_text().startswith("<?xml")
    assert (tmp_path / "unpacked/n1/files/proc/meminfo").read_text().startswith("MemTotal")


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")
def test_another_user_in_another_place_reads_the_same_facts(tmp_path: Path) -> None:
    recording, facts = taking.take(Host(), Options(scope="user", model_dirs=[str(tmp_path)], module_version="1.2.3"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.tar.gz"
        saving.save(recording, str(path), "here")
        Path(folder).chmod(0o755)
        path.chmod(0o644)
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": "/nonexistent",
            "XDG_CONFIG_HOME": "/elsewhere",
            "PYTHONPATH": str(ROOT / "collections"),
        }
        replay = [sys.executable, "-c", REPLAY, str(path)]
        done = subprocess.run(replay, env=environment, cwd="/", capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    for probe in theirs["probes"]:
        del probe["seconds"]
    assert theirs == plain(facts)


def test_a_share_that_hung_hangs_no_replay_and_gives_the_same_finding() -> None:
    host = machine()
    host.hanging = ("/srv/models",)
    recording, facts = taking.take(host, options())
    assert plain(taking.facts_in(recording, "1.2.3")) == plain(facts)
    assert [call for call, answers in recording.calls.items() if call.of[0:1] == ("/srv/models",) and answers] != []


def test_a_machine_with_nothing_gives_the_facts_of_nothing() -> None:
    recording, facts = taking.take(FakeHost(), Options())
    assert plain(taking.facts_in(recording)) == plain(facts)


def test_a_replay_has_the_time_of_any_discovery() -> None:
    recording, _facts = taking.take(machine(), replace(options(), timeout_s=0.001))
    assert recording.options["timeout_s"] == 0.001
    assert taking._options(recording.options).timeout_s == DEFAULT_TIMEOUT_S


def test_every_option_of_discovery_goes_through_a_capture() -> None:
    given = replace(options(), scope="user", state_dir="/state")
    document = taking._document(given)
    assert set(document) == {field.name for field in fields(Options)} - {"module_version"}
    again = replace(taking._options(document), module_version=given.module_version)
    assert taking._document(again) == document


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scope", 7),
        ("scope", None),
        ("timeout_s", "long"),
        ("timeout_s", None),
        ("model_dirs", [7]),
        ("model_dirs", {}),
        ("gather", None),
        ("gather", 7),
        ("engine_commands", ["x"]),
        ("engine_commands", {"sim": "x"}),
        ("engine_commands", {"sim": [None]}),
        ("engine_commands", None),
    ],
)
def test_options_that_are_none_are_told(name: str, value: object) -> None:
    recording, _facts = taking.take(machine(), options())
    broken = replace(recording, options={**recording.options, name: value})
    with pytest.raises(CaptureError, match=f"its option {name} is not as llmgw writes it"):
        taking.facts_in(broken)


def test_a_part_that_nobody_knows_is_told() -> None:
    recording, _facts = taking.take(machine(), options())
    broken = replace(recording, options={**recording.options, "gather": ["nonsense"]})
    with pytest.raises(CaptureError, match=r"its options are not as llmgw writes them: .*nonsense"):
        taking.facts_in(broken)


def test_options_of_a_newer_llmgw_change_nothing() -> None:
    recording, facts = taking.take(machine(), options())
    newer = replace(recording, options={**recording.options, "invented": {"later": 1}})
    assert plain(taking.facts_in(newer, "1.2.3")) == plain(facts)


def test_nothing_in_discovery_reads_the_machine_but_through_host() -> None:
    folder = Path(inspect.getfile(discovery)).parent
    parts = [*folder.glob("*.py"), *folder.parent.glob("readings/*.py")]
    parts += [folder.parent / name for name in ("observed.py", "systemd.py", "unitfile.py", "port_owner.py")]
    # This program is what another process runs, through Host.
    readers = [path for path in parts if path.name != "nvml_dump.py"]
    assert len(readers) > 20
    assert [line for path in readers for line in touches(path)] == []


def touches(path: Path) -> list[str]:
    """Where a module reaches for the machine itself. What only computes (an error's name) may be of `os`."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found += [name for name in names if name.partition(".")[0] in TOUCHING]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            found.append("open")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            found += [f"os.{node.attr}"] if node.attr != "strerror" else []
    return [f"{path.name}: {what}" for what in found]
