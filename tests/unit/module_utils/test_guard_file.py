# SPDX-License-Identifier: Apache-2.0
"""The guard's program comes to a node with the units that run it, whole, and only where it is needed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import guard, guard_file
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

PACKAGE = "ansible_collections/llmgw/fleet/plugins/module_utils"
PROGRAM = Path(guard.__file__)


def unit(folder: Path) -> str:
    return f"[Service]\nExecStart=/usr/bin/env python3 -I {folder}/guard.py --secret A=b -- /bin/true\n"


def test_it_is_written_where_a_unit_names_it_for_all_to_read(tmp_path: Path) -> None:
    guard_file.place(Host(), str(tmp_path), ["[Service]\nExecStart=/bin/true\n", unit(tmp_path)])
    assert (tmp_path / "guard.py").read_bytes() == PROGRAM.read_bytes()
    assert (tmp_path / "guard.py").stat().st_mode & 0o777 == 0o644


def test_it_is_not_written_where_no_unit_names_it(tmp_path: Path) -> None:
    guard_file.place(Host(), str(tmp_path), ["[Service]\nExecStart=/bin/true\n"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("before", ["another version", PROGRAM.read_text()])
def test_it_is_replaced_as_a_whole_when_it_differs_and_left_alone_else(tmp_path: Path, before: str) -> None:
    path = tmp_path / "guard.py"
    path.write_text(before)
    inode = path.stat().st_ino
    guard_file.place(Host(), str(tmp_path), [unit(tmp_path)])
    assert path.read_bytes() == PROGRAM.read_bytes()
    assert (path.stat().st_ino == inode) is (before == PROGRAM.read_text())
    assert list(tmp_path.iterdir()) == [path]


def test_a_mode_that_keeps_engines_users_out_is_mended(tmp_path: Path) -> None:
    guard_file.place(Host(), str(tmp_path), [unit(tmp_path)])
    (tmp_path / "guard.py").chmod(0o600)
    guard_file.place(Host(), str(tmp_path), [unit(tmp_path)])
    assert (tmp_path / "guard.py").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("command", "grouped"),
    [
        ("/usr/bin/env python3 -I /s/guard.py --group d --rank 0 -- engine", True),
        ("/usr/bin/env python3 -I /s/guard.py --secret A=b --group d -- engine", True),
        ("/usr/bin/env python3 -I /s/guard.py --secret A=b -- engine", False),
        ("engine --group x", False),
    ],
)
def test_members_of_a_group_are_told_by_their_command(command: str, grouped: bool) -> None:
    assert guard_file.is_in_group(f"[Service]\nExecStart={command}\n") is grouped


def test_its_text_is_found_in_the_zip_file_that_ansible_sends(tmp_path: Path) -> None:
    archive = tmp_path / "module.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for name in ("guard", "guard_file", "atomic"):
            packed.write(PROGRAM.with_name(f"{name}.py"), f"{PACKAGE}/{name}.py")
        parts = PACKAGE.split("/")
        for count in range(len(parts)):
            packed.writestr("/".join([*parts[: count + 1], "__init__.py"]), "")
    code = (
        f"from {PACKAGE.replace('/', '.')} import guard_file; import sys; sys.stdout.buffer.write(guard_file.source())"
    )
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, env={"PYTHONPATH": str(archive)}, capture_output=True, timeout=30, check=True)
    assert done.stdout == PROGRAM.read_bytes()
