# SPDX-License-Identifier: Apache-2.0
"""Every source file is short, says its licence, and runs where it is meant to run."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from tests.shape.tree import COLLECTION, ROOT, files, python_files

MOST_LINES = 400
ON_NODES = tuple(str(COLLECTION / part) for part in ("plugins/modules", "plugins/module_utils", "roles"))
# What a node's Python may import besides the standard library: Ansible sends the first two along, NVML's is optional.
SENT_ALONG = ("ansible.module_utils", "ansible_collections.llmgw.fleet.plugins.module_utils")
OPTIONAL = ("pynvml", "xllamacpp")


def licence(path: Path) -> str:
    """The licence that a file of the project has by its place."""
    if path.is_relative_to(COLLECTION / "plugins/module_utils"):
        return "BSD-2-Clause"
    if any(path.is_relative_to(COLLECTION / "plugins" / part) for part in ("modules", "action", "plugin_utils")):
        return "GPL-3.0-or-later"
    return "Apache-2.0"


def lines(path: Path) -> list[str]:
    return (ROOT / path).read_text(encoding="utf-8").splitlines()


def test_no_python_file_is_longer_than_a_reader_can_hold() -> None:
    too_long = {str(path): len(lines(path)) for path in python_files() if len(lines(path)) > MOST_LINES}
    assert too_long == {}


def test_every_python_file_says_its_licence_first() -> None:
    wrong = []
    for path in python_files():
        text = lines(path)
        head = text[1:2] if text and text[0].startswith("#!") else text[:1]
        if text and head != [f"# SPDX-License-Identifier: {licence(path)}"]:
            wrong.append(f"{path}: wants {licence(path)}, begins with {head}")
    assert wrong == []


def test_every_licence_that_a_file_names_is_there_in_full() -> None:
    named = {licence(path) for path in python_files()}
    for folder in (Path("LICENSES"), COLLECTION / "LICENSES"):
        assert {path.stem for path in files(str(folder))} == named
        for name in named:
            assert (ROOT / folder / f"{name}.txt").read_bytes() == (ROOT / "LICENSES" / f"{name}.txt").read_bytes()
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "LICENSES/Apache-2.0.txt").read_bytes()


def test_what_is_sent_to_nodes_is_python_3_8() -> None:
    wrong = []
    for path in python_files(*ON_NODES):
        try:
            ast.parse((ROOT / path).read_text(encoding="utf-8"), filename=str(path), feature_version=(3, 8))
        except SyntaxError as error:
            wrong.append(f"{path}:{error.lineno}: {error.msg}")
    assert wrong == []


def test_what_is_sent_to_nodes_imports_only_what_is_there() -> None:
    sent = python_files(*ON_NODES)
    there = {*sys.stdlib_module_names, *OPTIONAL, *(name for path in sent for name in (path.stem, path.parent.name))}
    wrong = []
    for path in sent:
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            wrong += [f"{path}: {name}" for name in imported(node) if not is_one_of(name, there)]
    assert wrong == []


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or "."] if isinstance(node, ast.ImportFrom) else []


def is_one_of(module: str, there: set[str]) -> bool:
    return module.partition(".")[0] in there or module.startswith(SENT_ALONG)
