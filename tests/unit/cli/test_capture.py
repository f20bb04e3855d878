# SPDX-License-Identifier: Apache-2.0
"""`llmgw capture`, and `llmgw facts local --capture`."""

from __future__ import annotations

import json
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.fleet_directory import Called, FleetDirectory

Call = Callable[..., Called]
HOSTS = f"""\
all:
  children:
    fleet:
      hosts:
        n1: {{ansible_connection: local, ansible_python_interpreter: {sys.executable}, llmgw_scope: user}}
        away: {{ansible_host: 127.0.0.1, ansible_port: 9}}
"""


def test_this_machine_is_captured_without_a_fleet_and_gives_its_facts_again(
    llmgw: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    called = llmgw("capture", "--here", "--scope", "user", "--model-dir", tmp_path)
    assert (called.status, called.err) == (0, "")
    found = re.fullmatch(
        r"this machine  (captures/[0-9]{8}-[0-9]{6}/this-machine\.tar\.gz)  [0-9]+ kB, [0-9]+ answers\n"
        r"next:  llmgw facts local --capture \1\n",
        called.out,
    )
    assert found is not None
    assert stat.S_IMODE(Path(found[1]).stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(found[1]).parent.stat().st_mode) == 0o700
    replayed = json.loads(llmgw("facts", "local", "--json", "--capture", found[1]).out)
    live = json.loads(llmgw("facts", "local", "--json", "--scope", "user", "--model-dir", tmp_path).out)
    assert replayed["format_version"] == 1
    assert sorted(replayed) == sorted(live)
    for same in ("cpu", "driver", "gpus", "units", "engines", "weights", "module_version", "contract_version"):
        assert replayed[same] == live[same]
    assert replayed["system"]["boot_id"] == live["system"]["boot_id"]
    shown = llmgw("facts", "local", "--capture", found[1])
    hostname = Path("/proc/sys/kernel/hostname").read_text(encoding="ascii").strip()
    head, _, rest = shown.out.partition("\n")
    when = r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} UTC"
    assert re.fullmatch(rf"{re.escape(found[1])}: {re.escape(hostname)}, captured {when}", head)
    assert rest.startswith("  system    ")


def test_a_redacted_capture_of_this_machine_tells_another_boot(llmgw: Call, tmp_path: Path) -> None:
    called = llmgw("capture", "--here", "--redact", "--json", "-o", tmp_path / "out")
    document = json.loads(called.out)
    assert document["format_version"] == 1
    assert document["failed"] == []
    (one,) = document["captures"]
    assert sorted(one) == ["calls", "file", "host", "left_out", "name", "size_bytes", "unanswered"]
    replayed = json.loads(llmgw("facts", "local", "--json", "--capture", one["file"]).out)
    live = json.loads(llmgw("facts", "local", "--json").out)
    assert replayed["system"]["boot_id"] != live["system"]["boot_id"]
    assert replayed["cpu"] == live["cpu"]


@pytest.mark.slow
def test_hosts_are_captured_and_one_that_is_away_costs_only_itself(
    llmgw: Call, directory: FleetDirectory, tmp_path: Path
) -> None:
    directory.hosts(HOSTS)
    called = llmgw("capture", "-i", directory.path, "-o", tmp_path / "out")
    assert called.status == 1
    assert called.err.startswith("away  no capture: ")
    assert "Connection refused" in called.err
    assert called.out.startswith(f"n1  {tmp_path}/out/n1.tar.gz  ")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["n1.tar.gz"]
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
    replayed = json.loads(llmgw("facts", "local", "--json", "--capture", tmp_path / "out/n1.tar.gz").out)
    assert replayed["system"]["scope"] == "user"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--here", "n1"), "--here captures this machine alone"),
        (("--here", "--limit", "n1"), "--here captures this machine alone"),
        (("n1", "--limit", "n1"), "name hosts or give --limit, not both"),
        (("--scope", "user"), "--model-dir and --scope are for --here"),
        (("--here", "--scope", "mine"), "there is no scope mine: it is system or user"),
    ],
)
def test_options_that_do_not_go_together_are_refused(llmgw: Call, arguments: tuple[str, ...], says: str) -> None:
    called = llmgw("capture", *arguments)
    assert called.status == 64
    assert says in called.err


def test_a_host_that_the_inventory_lacks_is_refused_with_those_it_has(llmgw: Call, directory: FleetDirectory) -> None:
    called = llmgw("capture", "-i", directory.path, "n1", "n9")
    assert called.status == 1
    assert called.err == "llmgw: the inventory has no host n9 [unknown-host]\n    fix: it has gw, n1, n2\n"


def test_a_place_that_cannot_be_written_is_told(llmgw: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    called = llmgw("capture", "--here", "-o", tmp_path / "file")
    assert called.status == 1
    assert called.err == (
        f"{tmp_path}/file: the capture cannot be written: file exists [capture-file]\n"
        "    fix: name a directory of yours: --output\n"
    )


def test_what_is_no_capture_is_told_without_a_traceback(llmgw: Call, tmp_path: Path) -> None:
    called = llmgw("facts", "local", "--capture", tmp_path)
    assert called.status == 1
    assert called.err == (
        f"{tmp_path}: this is no capture: there is no capture.json in it [capture-broken]\n"
        "    fix: name the .tar.gz that llmgw capture wrote, or the directory that was unpacked from it\n"
    )
    assert llmgw("facts", "local", "--capture", tmp_path / "none").status == 1


def test_a_directory_of_several_captures_names_them(llmgw: Call, tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"n{number}.tar.gz").write_bytes(b"")
    called = llmgw("facts", "local", "--capture", tmp_path)
    assert called.status == 1
    assert called.err == (
        f"{tmp_path}: this directory is no capture, but holds 7: n0.tar.gz, n1.tar.gz, n2.tar.gz, n3.tar.gz, n4.tar.gz "
        f"and 2 more [capture-broken]\n    fix: name one of them: {tmp_path}/n0.tar.gz\n"
    )


def test_a_capture_is_looked_at_with_the_options_it_was_made_with(llmgw: Call, tmp_path: Path) -> None:
    for surplus in (("--scope", "user"), ("--model-dir", "/m")):
        called = llmgw("facts", "local", "--capture", tmp_path, *surplus)
        assert called.status == 64
        assert "a capture holds the options that it was made with" in called.err
    assert llmgw("facts", "local", "--scope", "mine").status == 64
