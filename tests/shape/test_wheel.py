# SPDX-License-Identifier: Apache-2.0
"""One wheel holds the package and the collection, and Ansible finds the collection in it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.shape.tree import COLLECTION, ROOT, files

INSTALLED = Path("ansible_collections/llmgw/fleet")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, freshly built."""
    place = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=50)
    (path,) = place.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_has_every_file_of_the_package_and_of_the_collection(wheel: zipfile.ZipFile) -> None:
    package = {str(path) for path in files("llmgw")}
    collection = {str(INSTALLED / path.relative_to(COLLECTION)) for path in files(str(COLLECTION))}
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == package | collection


def test_the_wheel_hides_no_other_collection(wheel: zipfile.ZipFile) -> None:
    in_the_way = {"ansible_collections/__init__.py", "ansible_collections/llmgw/__init__.py"}
    assert in_the_way.isdisjoint(wheel.namelist())


def test_package_and_collection_have_one_version(wheel: zipfile.ZipFile) -> None:
    galaxy = wheel.read(str(INSTALLED / "galaxy.yml")).decode()
    version = re.search(r"(?m)^version: (\S+)$", galaxy)
    assert version is not None
    metadata = wheel.read(f"llmgw-{version[1]}.dist-info/METADATA").decode()
    assert f"\nVersion: {version[1]}\n" in metadata


def test_ansible_finds_and_documents_every_module_of_the_wheel(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    modules = [path.stem for path in files(str(COLLECTION / "plugins/modules"))]
    command = [
        str(Path(sys.executable).with_name("ansible-doc")),
        "--json",
        *(f"llmgw.fleet.{name}" for name in modules),
    ]
    place = {
        "PYTHONPATH": str(tmp_path),
        "ANSIBLE_COLLECTIONS_PATH": str(tmp_path),
        "ANSIBLE_HOME": str(tmp_path / "home"),
    }
    done = subprocess.run(
        command, env=os.environ | place, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
    documented = json.loads(done.stdout)
    assert sorted(documented) == sorted(f"llmgw.fleet.{name}" for name in modules)
    for entry in documented.values():
        assert entry["doc"]["filename"].startswith(str(tmp_path))
