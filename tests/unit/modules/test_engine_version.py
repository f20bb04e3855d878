# SPDX-License-Identifier: Apache-2.0
"""The module engine_version, without packages: what it installs is a program. With packages: tests/fleet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import engine_users, host_lock
from ansible_collections.llmgw.fleet.plugins.modules import engine_version
from tests.unit.modules import in_process

Install = Callable[..., dict[str, Any]]
PROGRAM = {"llmgw-sim": "#!/bin/sh\necho llmgw-sim 1.0\n"}


@pytest.fixture
def install(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Install:
    def run(version: str, *, check: bool = False, **options: Any) -> dict[str, Any]:
        defaults = {
            "kind": "sim",
            "root": str(tmp_path / "engines"),
            "version": version,
            "programs": PROGRAM,
            "keep": 0,
            "state_dir": str(tmp_path / "state"),
        }
        return in_process.run(engine_version, capsys, check=check, **{**defaults, **options})

    return run


def versions(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "engines/sim").iterdir() if not path.name.startswith("."))


def test_a_second_run_changes_nothing_and_neither_does_check_mode(install: Install, tmp_path: Path) -> None:
    assert install("1.0", check=True)["changed"] is True
    assert not (tmp_path / "engines").exists()
    first = install("1.0")
    assert (first["changed"], first["installed"]) == (True, True)
    assert Path(first["path"], "bin/llmgw-sim").stat().st_mode & 0o777 == 0o755
    assert Path(tmp_path, "engines/sim/current").resolve() == Path(first["path"])
    for check in (True, False):
        again = install("1.0", check=check)
        assert (again["changed"], again["installed"], again["removed"]) == (False, False, [])


def test_check_mode_says_what_a_real_run_then_does(install: Install, tmp_path: Path) -> None:
    old = Path(install("1.0")["path"]).name
    before = versions(tmp_path)
    promised = install("1.1", check=True)
    assert versions(tmp_path) == before
    done = install("1.1")
    assert {key: promised[key] for key in ("changed", "removed", "path", "diff")} == {
        key: done[key] for key in ("changed", "removed", "path", "diff")
    }
    assert done["removed"] == [old]
    assert versions(tmp_path) == [Path(done["path"]).name, "current"]


def test_another_program_is_another_folder(install: Install) -> None:
    first, second = install("1.0")["path"], install("1.0", programs={"llmgw-sim": "#!/bin/sh\n"})["path"]
    assert first != second
    assert Path(second).name.startswith("1.0-")


def test_older_versions_stay_as_long_as_something_would_put_them_back(install: Install, tmp_path: Path) -> None:
    old = install("1.0")["path"]
    last_good = tmp_path / "state/last-good"
    last_good.mkdir(parents=True)
    (last_good / "llmgw-chat.0.0.service").write_text(f"ExecStart={old}/bin/llmgw-sim\n")
    done = install("1.1")
    assert (done["removed"], done["used"]) == ([], [Path(old).name])
    (last_good / "llmgw-chat.0.0.service").unlink()
    assert install("1.1")["removed"] == [Path(old).name]


def test_the_way_back_installs_nothing(install: Install) -> None:
    first = install("1.0", keep=1)["path"]
    install("1.1", keep=1)
    back = install("1.0", keep=1)
    assert (back["changed"], back["installed"], back["path"]) == (True, False, first)


def test_a_failed_installation_leaves_nothing_and_what_was_current_stays(install: Install, tmp_path: Path) -> None:
    install("1.0")
    before = versions(tmp_path)
    failed = install("2.0", package="nothing", python="/nowhere/python3")
    assert failed["failed"] is True
    assert failed["msg"].startswith("sim: /nowhere/python3 does not run")
    assert versions(tmp_path) == before


def test_a_folder_that_somebody_else_made_is_refused_and_left_alone(install: Install) -> None:
    theirs = Path(install("1.0")["path"])
    (theirs / "llmgw-engine.json").unlink()
    assert "was not made by llmgw" in install("1.0")["msg"]
    assert (theirs / "bin/llmgw-sim").exists()


def test_a_native_command_is_used_where_nothing_is_installed(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native = tmp_path / "bin/llama-server"
    native.parent.mkdir()
    native.write_text("#!/bin/sh\n")
    native.chmod(0o755)
    monkeypatch.setenv("PATH", str(native.parent), prepend=":")
    answer = install("1.0", native="llama-server")
    assert (answer["changed"], answer["path"]) == (False, str(native))
    assert not (tmp_path / "engines").exists()
    ours = install("1.0")["path"]
    assert install("1.0", native="llama-server")["path"] == ours, "what is installed stays what is used"


def test_two_runs_at_once_do_not_meet(install: Install, tmp_path: Path) -> None:
    install("1.0")
    with host_lock.hold(str(tmp_path / "engines/sim/.lock"), 1):
        assert "holds" in install("1.1", lock_timeout_s=0)["msg"]


def test_on_a_share_nothing_is_removed_and_the_run_says_what_may_be(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Path(install("1.0")["path"]).name
    monkeypatch.setattr(engine_users, "others_may_use", lambda _host, _directory: True)
    done = install("1.1")
    assert done["removed"] == []
    assert old in versions(tmp_path)
    assert f"this one does not use {old}" in str(done["warnings"])


def test_an_installation_that_was_killed_at_its_very_beginning_is_begun_anew(install: Install) -> None:
    folder = Path(install("1.0", check=True)["path"])
    folder.mkdir(parents=True)
    (folder / ".llmgw-engine.json.x1y2z3").write_text("")
    assert install("1.0")["installed"] is True
