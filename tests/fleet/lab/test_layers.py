# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.fleet.lab.errors import LabError
from tests.fleet.lab.layers import Layer, held

ROOT = Path(__file__).parents[3]


def layer(digest: str, built: list[str]) -> Layer:
    def build(tree: Path) -> None:
        built.append(digest)
        (tree / "file").write_text(digest)

    return Layer("toy", digest, build)


def test_a_layer_is_built_once_for_its_digest(tmp_path: Path) -> None:
    built: list[str] = []
    for _ in range(2):
        with held(tmp_path, [layer("a", built)]) as (tree,):
            assert (tree / "file").read_text() == "a"
    assert built == ["a"]


def test_a_changed_recipe_replaces_the_layer_unless_it_is_held(tmp_path: Path) -> None:
    built: list[str] = []
    with held(tmp_path, [layer("a", built)]) as (old,), held(tmp_path, [layer("b", built)]):
        assert old.is_dir()
    with held(tmp_path, [layer("b", built)]):
        assert not old.exists()
    assert built == ["a", "b"]


def test_a_second_builder_waits_for_the_first(tmp_path: Path) -> None:
    met: list[bool] = []
    meeting = threading.Barrier(2)

    def build(tree: Path) -> None:
        del tree
        try:
            meeting.wait(timeout=0.5)
        except threading.BrokenBarrierError:
            met.append(False)
        else:
            met.append(True)

    def use() -> None:
        with held(tmp_path, [Layer("toy", "a", build)]):
            pass

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert met == [False]


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def fail(tree: Path) -> None:
        (tree / "half").write_text("")
        raise LabError("no network")

    with pytest.raises(LabError, match="no network"), held(tmp_path, [Layer("toy", "a", fail)]):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_killed_build_leaves_nothing_that_the_next_one_keeps(tmp_path: Path) -> None:
    script = """
import sys, time
from pathlib import Path
from tests.fleet.lab.errors import LabError
from tests.fleet.lab.layers import Layer, held
def build(tree):
    (tree / "half").touch()
    print("building", flush=True)
    time.sleep(600)
with held(Path(sys.argv[1]), [Layer("toy", "a", build)]):
    pass
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as builder:
        assert builder.stdout is not None
        assert builder.stdout.readline() == "building\n"
        builder.kill()
    built: list[str] = []
    with held(tmp_path, [layer("a", built)]) as (tree,):
        assert [path.name for path in tree.iterdir()] == ["file"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "toy-a"]
