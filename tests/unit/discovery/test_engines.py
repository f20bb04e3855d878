# SPDX-License-Identifier: Apache-2.0
"""Engines: where they are, which version, whether they start (D13)."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Engine
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import engines
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Result
from tests.support.fake_host import FakeHost

LLAMA = "/opt/llmgw/engines/llama.cpp/bin/llama-server"
SIM = "/opt/llmgw/engines/sim/bin/llmgw-sim"
VLLM = "/opt/llmgw/engines/vllm"


def test_nothing_installed_is_nothing_told() -> None:
    assert engines.read_engines(FakeHost(), "system", {}) == ()


def test_engines_in_their_usual_places_are_asked_for_their_version() -> None:
    host = FakeHost(
        {LLAMA: "", SIM: ""},
        commands={
            f"{LLAMA} --version": Result(0, "", "version: 6123 (a1b2c3d)\nbuilt with cc\n"),
            f"{SIM} --version": "llmgw-sim 0.1.0 (simulator)\n",
        },
    )
    assert engines.read_engines(host, "system", {}) == (
        Engine("llama.cpp", (LLAMA,), "6123", runnable=True),
        Engine("sim", (SIM,), "0.1.0", runnable=True),
    )


def test_a_users_own_engine_goes_before_the_systems() -> None:
    own = "/home/ops/.local/share/llmgw/engines/sim/bin/llmgw-sim"
    host = FakeHost(
        {own: "", SIM: ""}, commands={f"{own} --version": "llmgw-sim 2.0", f"{SIM} --version": "llmgw-sim 1.0"}
    )
    assert [engine.command for engine in engines.read_engines(host, "user", {})] == [(own,)]
    assert [engine.command for engine in engines.read_engines(host, "system", {})] == [(SIM,)]


def test_an_engine_on_the_path_is_the_last_resort() -> None:
    host = FakeHost(commands={"llama-server": "", "/usr/bin/llama-server --version": "llama-server 1.2.3 (x)"})
    assert engines.read_engines(host, "system", {}) == (
        Engine("llama.cpp", ("/usr/bin/llama-server",), "1.2.3", runnable=True),
    )


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (Result(1, "", "error while loading shared libraries: libcuda.so.1"), "exit status 1: error while loading"),
        (Result(-9, "", "", timed_out=True), "no answer within 10 s"),
    ],
)
def test_an_engine_that_does_not_start_says_why(result: Result, reason: str) -> None:
    (engine,) = engines.read_engines(FakeHost({SIM: ""}, commands={f"{SIM} --version": result}), "system", {})
    assert (engine.runnable, engine.version) == (False, None)
    assert reason in (engine.reason or "")


def test_a_slow_engine_is_looked_up_and_not_started() -> None:
    host = FakeHost({f"{VLLM}/bin/vllm": "", f"{VLLM}/lib/python3.12/site-packages/vllm-0.33.0.dist-info/METADATA": ""})
    assert engines.read_engines(host, "system", {}) == (Engine("vllm", (f"{VLLM}/bin/vllm",), "0.33.0"),)
    assert host.ran == []


def test_the_current_version_is_named_by_its_own_folder() -> None:
    packages = "lib/python3.12/site-packages/vllm"
    host = FakeHost(
        {
            f"{VLLM}/0.33.0/bin/vllm": "",
            f"{VLLM}/0.33.0/{packages}-0.33.0.dist-info/METADATA": "",
            f"{VLLM}/0.32.0/bin/vllm": "",
            f"{VLLM}/0.32.0/{packages}-0.32.0.dist-info/METADATA": "",
        },
        links={f"{VLLM}/current": "0.32.0"},
    )
    assert engines.read_engines(host, "system", {}) == (Engine("vllm", (f"{VLLM}/0.32.0/bin/vllm",), "0.32.0"),)


def test_the_current_version_goes_before_an_engine_without_versions() -> None:
    new = "/opt/llmgw/engines/sim/1.0-abc/bin/llmgw-sim"
    host = FakeHost(
        {SIM: "", new: ""},
        commands={f"{new} --version": "llmgw-sim 1.0", f"{SIM} --version": "llmgw-sim 0.9"},
        links={"/opt/llmgw/engines/sim/current": "1.0-abc"},
    )
    assert engines.read_engines(host, "system", {}) == (Engine("sim", (new,), "1.0", runnable=True),)


def test_a_prefix_of_the_operators_own_goes_before_the_usual_one() -> None:
    own = "/data/llmgw/engines/sim/1.0/bin/llmgw-sim"
    host = FakeHost(
        {SIM: "", own: ""},
        commands={f"{own} --version": "llmgw-sim 1.0", f"{SIM} --version": "llmgw-sim 0.9"},
        links={"/data/llmgw/engines/sim/current": "1.0"},
    )
    assert [one.command for one in engines.read_engines(host, "system", {}, "/data/llmgw/")] == [(own,)]
    assert [one.command for one in engines.read_engines(host, "system", {"sim": ["/data/llmgw/engines/sim"]})] == [
        (own,)
    ]


def test_versions_of_which_none_is_current_are_no_engine() -> None:
    assert engines.read_engines(FakeHost({f"{VLLM}/0.33.0/bin/vllm": ""}), "system", {}) == ()


def test_a_current_version_that_is_gone_is_told_with_where_the_link_leads() -> None:
    host = FakeHost({f"{VLLM}/0.33.0/bin/vllm": ""}, links={f"{VLLM}/current": "0.34.0"})
    (engine,) = engines.read_engines(host, "system", {})
    assert (engine.command, engine.runnable) == ((f"{VLLM}/0.34.0/bin/vllm",), False)
    assert engine.reason == f"{VLLM}/current leads to 0.34.0, where no vllm is"


def test_a_build_for_a_special_machine_is_told_with_its_mark() -> None:
    host = FakeHost(
        {f"{VLLM}/bin/vllm": "", f"{VLLM}/lib/python3.12/site-packages/vllm-0.32.0+cpu.dist-info/METADATA": ""}
    )
    assert [engine.version for engine in engines.read_engines(host, "system", {})] == ["0.32.0+cpu"]


def test_a_package_with_a_similar_name_is_not_the_engine() -> None:
    host = FakeHost(
        {f"{VLLM}/bin/vllm": "", f"{VLLM}/lib/python3.12/site-packages/vllm_gguf-1.0.dist-info/METADATA": ""}
    )
    (engine,) = engines.read_engines(host, "system", {})
    assert (engine.version, engine.runnable) == (None, None)
    assert engine.reason


def test_a_link_on_the_path_leads_to_its_virtual_environment() -> None:
    host = FakeHost(
        {"/opt/v/bin/vllm": "", "/opt/v/lib/python3.11/site-packages/vllm-0.32.0.dist-info/METADATA": ""},
        commands={"vllm": ""},
        links={"/usr/bin/vllm": "/opt/v/bin/vllm"},
    )
    assert engines.read_engines(host, "system", {}) == (Engine("vllm", ("/usr/bin/vllm",), "0.32.0"),)


def test_an_engine_without_a_program_of_its_own_is_a_module() -> None:
    root = "/opt/llmgw/engines/sglang"
    host = FakeHost({f"{root}/lib/python3.12/site-packages/sglang-0.5.23.dist-info/METADATA": ""})
    (engine,) = engines.read_engines(host, "system", {})
    assert (engine.command, engine.version) == ((f"{root}/bin/python3", "-m", "sglang.launch_server"), "0.5.23")


def test_a_named_command_or_environment_goes_before_all_else() -> None:
    host = FakeHost(
        {
            SIM: "",
            "/x/sim": "",
            "/x/v/bin/vllm": "",
            "/x/v/lib/python3.12/site-packages/vllm-1.0.dist-info/METADATA": "",
        },
        commands={"/x/sim --fast --version": "llmgw-sim 3.0"},
    )
    found = engines.read_engines(host, "system", {"sim": ["/x/sim", "--fast"], "vllm": ["/x/v"]})
    assert found == (
        Engine("sim", ("/x/sim", "--fast"), "3.0", runnable=True),
        Engine("vllm", ("/x/v/bin/vllm",), "1.0"),
    )


def test_a_named_engine_that_is_not_there_is_told_as_such() -> None:
    host = FakeHost({SIM: "", "/x/empty/file": ""}, commands={f"{SIM} --version": "llmgw-sim 1.0"})
    found = engines.read_engines(host, "system", {"sim": ["/x/none"], "vllm": ["/x/empty"]})
    assert [(one.kind, one.runnable, one.reason) for one in found] == [
        ("sim", False, "/x/none does not exist"),
        ("vllm", False, "no vllm in /x/empty"),
    ]


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("llama-server 2026.10.11549 (xllamacpp)\n", "2026.10.11549"),
        ("ggml_cuda_init: found 1 devices\nversion: 6123 (a1b2c3)\n", "6123"),
        ("llmgw-sim 0.1.0 (simulator)", "0.1.0"),
        ("v1.2.3", "1.2.3"),
        ("something else", None),
        ("", None),
    ],
)
def test_versions_are_found_in_what_engines_print(output: str, version: str | None) -> None:
    assert engines.version_in(output) == version
