# SPDX-License-Identifier: Apache-2.0
"""Secrets reach the engine's environment, and nothing else; a missing one is named with what to do (R10)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.unit.module_utils.guard_members import GROUP, PROGRAM, free_ports

PRINT = "import json, os, sys; print(json.dumps([dict(os.environ), sys.argv[1:], os.getpid()]))"
# What it imports is imported before: the tests' Python may lie where nobody else can read.
AS_NOBODY = """\
import os, runpy, shutil, sys
del sys.argv[0]
runpy.run_path(sys.argv[0])
os.setuid(65534)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
BASE = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}


def run(folder: Path | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**BASE, **({"CREDENTIALS_DIRECTORY": str(folder)} if folder else {})}
    command = [sys.executable, "-I", str(PROGRAM), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hf-token").write_text("hf_ünsecret\n")
    (tmp_path / "api-keys").write_text("one\ntwo\r\n\n")
    return tmp_path


def test_secrets_become_variables_without_their_last_line_break(folder: Path) -> None:
    arguments = ["--secret", "HF_TOKEN=hf-token", "--secret", "KEYS=api-keys", "--"]
    done = run(folder, *arguments, sys.executable, "-I", "-c", PRINT)
    environment, _argv, _pid = json.loads(done.stdout)
    assert environment["HF_TOKEN"] == "hf_ünsecret"
    assert environment["KEYS"] == "one\ntwo"
    assert set(environment) - set(BASE) == {"CREDENTIALS_DIRECTORY", "HF_TOKEN", "KEYS"}
    assert done.stderr == ""


def test_without_a_group_the_engine_takes_the_guards_place(folder: Path) -> None:
    command = [sys.executable, "-I", str(PROGRAM), "--secret", "A=hf-token", "--", sys.executable, "-c", PRINT]
    environment = {**BASE, "CREDENTIALS_DIRECTORY": str(folder)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        out, _err = process.communicate(timeout=30)
        assert json.loads(out)[2] == process.pid


def test_the_engines_own_arguments_are_left_alone() -> None:
    words = ["--secret", "X=y", "--rank", "9", "--", "-", "a b"]
    done = run(None, "--", sys.executable, "-c", PRINT, *words)
    assert json.loads(done.stdout)[1] == words


def test_a_secret_that_is_missing_is_named_with_what_to_do(folder: Path) -> None:
    done = run(folder, "--secret", "HF_TOKEN=other", "--", "/bin/true")
    assert done.returncode == 1
    assert f"No such file or directory: {PROGRAM.parent}/secrets/other" in done.stderr
    assert "cannot set HF_TOKEN (name other in llmgw_secrets, then run the playbook llmgw.fleet.prepare)" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_secrets_that_the_engines_user_may_not_read_are_for_a_newer_systemd() -> None:
    state = Path(tempfile.mkdtemp())
    try:
        state.chmod(0o755)
        (state / "guard.py").write_bytes(PROGRAM.read_bytes())
        (state / "secrets").mkdir(mode=0o700)
        (state / "secrets" / "hf-token").touch(mode=0o600)
        command = [sys.executable, "-I", "-c", AS_NOBODY, str(state / "guard.py"), "--secret", "A=hf-token", "--", "x"]
        done = subprocess.run(command, env=BASE, capture_output=True, text=True, timeout=30, check=False)
    finally:
        shutil.rmtree(state)
    assert done.returncode == 1
    assert "cannot set A (systemd handed over no secret hf-token: that needs systemd 247 or newer)" in done.stderr


def test_without_credentials_the_file_beside_the_guard_counts(folder: Path) -> None:
    program = folder / "guard.py"
    program.write_bytes(PROGRAM.read_bytes())
    (folder / "secrets").mkdir()
    (folder / "hf-token").rename(folder / "secrets" / "hf-token")
    command = [sys.executable, "-I", str(program), "--secret", "A=hf-token", "--", sys.executable, "-c", PRINT]
    done = subprocess.run(command, env=BASE, capture_output=True, text=True, timeout=30, check=True)
    assert json.loads(done.stdout)[0]["A"] == "hf_ünsecret"


def test_a_file_of_that_name_in_the_working_directory_is_no_secret(folder: Path, tmp_path: Path) -> None:
    program = folder / "guard.py"
    program.write_bytes(PROGRAM.read_bytes())
    home = tmp_path / "home"
    home.mkdir()
    (home / "hf-token").write_text("another")
    command = [sys.executable, "-I", str(program), "--secret", "A=hf-token", "--", "/bin/true"]
    done = subprocess.run(command, env=BASE, cwd=home, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert f"No such file or directory: {folder}/secrets/hf-token" in done.stderr


@pytest.mark.parametrize(("content", "fits"), [(b"a\0b\n", False), (b"x" * 200_000, False), (b"x" * 100_000, True)])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_secret_that_no_variable_can_hold_is_refused_by_its_name(
    folder: Path, content: bytes, fits: bool, grouped: bool
) -> None:
    (folder / "hf-token").write_bytes(content)
    members = [word for rank, port in enumerate(free_ports(2)) for word in ("--member", f"{rank}=127.0.0.1:{port}")]
    if grouped and fits:
        return  # it would wait for the other member
    told = ["--group", GROUP, "--rank", "0", *members] if grouped else []
    done = run(folder, "--secret", "A=hf-token", *told, "--", "/bin/true")
    if fits:
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert done.returncode == 1
        assert "cannot give A the secret hf-token: it has a NUL byte, or more than 127 KiB" in done.stderr


def test_a_command_that_cannot_be_executed_ends_as_systemd_itself_reports_it() -> None:
    done = run(None, "--", "/nonexistent/engine")
    assert done.returncode == 203
    assert "cannot start the engine: No such file or directory: /nonexistent/engine" in done.stderr


def test_in_a_group_only_the_engine_knows_the_secret(folder: Path) -> None:
    ports = free_ports(2)
    members = [word for rank in (0, 1) for word in ("--member", f"{rank}=127.0.0.1:{ports[rank]}")]
    show = f"{sys.executable} -I -c '{PRINT}' > {folder}/engine-$0; cat /proc/$PPID/environ > {folder}/guard-$0"
    environment = {**BASE, "CREDENTIALS_DIRECTORY": str(folder)}
    program = [sys.executable, "-I", str(PROGRAM), "--secret", "HF_TOKEN=hf-token", "--group", GROUP]
    guards = [
        subprocess.Popen(
            [*program, "--rank", str(rank), *members, "--", "/bin/sh", "-c", f"{show}; sleep 1; exit 3", str(rank)],
            env=environment,
        )
        for rank in (0, 1)
    ]
    assert 3 in [one.wait(30) for one in guards]
    shown = [path for path in folder.glob("engine-*") if path.read_text()]
    assert shown
    for path in shown:
        assert json.loads(path.read_text())[0]["HF_TOKEN"] == "hf_ünsecret"
    for path in folder.glob("guard-*"):
        assert b"HF_TOKEN" not in path.read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rank", "0", "--member", "0=127.0.0.1:1"],
        ["--rank", "2", "--member", "0=127.0.0.1:1", "--member", "1=127.0.0.1:2"],
        ["--rank", "0", "--member", "0=127.0.0.1:1", "--member", "2=127.0.0.1:2"],
        ["--member", "0=127.0.0.1:1", "--member", "1=127.0.0.1:2"],
    ],
)
def test_a_group_names_every_rank_and_its_own(arguments: list[str]) -> None:
    done = run(None, "--group", GROUP, *arguments, "--", "/bin/true")
    assert done.returncode == 2
    assert "--member names every rank once" in done.stderr
