# SPDX-License-Identifier: Apache-2.0
"""Nothing of the machine on which the project is built gets into the project: no path, no package registry."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.shape.tree import ROOT, files

HOST_OF_URL = re.compile(r"https?://([\w.-]+\.[a-z]+)")


def registries() -> set[str]:
    """Hosts that apt and pip of this machine ask for packages, pip's default among them."""
    listed = (path for path in Path("/etc/apt").glob("sources.list*/**/*") if path.suffix in {".list", ".sources"})
    texts = [path.read_text(encoding="utf-8") for path in (Path("/etc/apt/sources.list"), *listed) if path.is_file()]
    for command in (["install", "--help"], ["config", "list"]):
        pip = [sys.executable, "-m", "pip", *command]
        texts.append(subprocess.run(pip, check=True, capture_output=True, text=True, timeout=30).stdout)
    return {host for text in texts for host in HOST_OF_URL.findall(text)} - {"github.com"}


def places() -> set[str]:
    """This checkout, and the interpreter where it lives in somebody's home."""
    interpreter = Path(sys.base_prefix)
    return {f"{ROOT}/"} | ({f"{interpreter}/"} if interpreter.is_relative_to(Path.home()) else set())


def test_no_file_names_this_machine_or_a_package_registry() -> None:
    names = registries() | places()
    assert len(names) > 1, "pip's help has no default index: this test looks for nothing"
    pattern = re.compile("|".join(sorted(map(re.escape, names))).encode())
    found = [f"{path}: {hit.decode()}" for path in files() for hit in pattern.findall((ROOT / path).read_bytes())]
    assert found == []
