# SPDX-License-Identifier: Apache-2.0
"""Whatever a machine's tools print, no fact holds a secret, or megabytes."""

from __future__ import annotations

import dataclasses
import json
import time

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import node
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.quoting import LONGEST, quoted
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host, Result
from tests.support.fake_host import FakeHost
from tests.support.smi_texts import card, document

SECRET = "9f8e7d6c5b4a39281706"
SPILT = (
    f"HF_TOKEN={SECRET}",
    f"python -m vllm --api-key {SECRET}",
    f"environment {{'DB_PASSWORD': x}} DB_PASSWORD='{SECRET}'",
    f'{{"token": "{SECRET}"}}',
    f"https://user:{SECRET}@filer/models",
    f"Authorization: Bearer {SECRET}",
)


@pytest.mark.parametrize("text", SPILT)
def test_a_quotation_has_asterisks_for_a_secret(text: str) -> None:
    assert SECRET not in quoted(text)
    assert "*" * 8 in quoted(text)


def test_a_quotation_is_cut_and_a_secret_at_the_cut_stays_hidden() -> None:
    text = "x" * (LONGEST - 15) + f" HF_TOKEN={SECRET}"
    assert SECRET[:3] not in quoted(text)
    begun = time.process_time()
    assert len(quoted(f"HF_TOKEN={SECRET} " * 1_000_000)) == LONGEST + 3
    assert time.process_time() - begun < 1


def test_words_without_a_secret_stay_as_they_are() -> None:
    assert quoted("the key of it is a token ring") == "the key of it is a token ring"


@pytest.mark.parametrize("spilt", SPILT)
def test_no_fact_holds_a_secret_that_a_tool_prints(spilt: str) -> None:
    def everything(line: str) -> Result:
        return Result(1, f"{spilt}\n", f"{line}: {spilt}\n")

    lines = ("nvidia-smi -q -x", "nvidia-smi -q", "dmesg", "systemctl --version", "nvidia-smi topo -m")
    host = FakeHost(
        {"/proc/self/mountinfo": "21 1 8:2 / / rw - ext4 /dev/sda2 rw\n"},
        commands={line: everything(line) for line in lines},
    )
    assert SECRET not in json.dumps(dataclasses.asdict(node.collect(host, node.Options())))


def test_no_fact_holds_a_secret_of_a_command_line_on_a_card() -> None:
    text = document(card()).replace(
        "<processes>",
        f"<processes><process_info><pid>7</pid><type>C</type><process_name>vllm --api-key {SECRET}</process_name>"
        "<used_memory>400 MiB</used_memory></process_info>",
    )
    facts = node.collect(FakeHost({}, commands={"nvidia-smi -q -x": text}), node.Options())
    told = json.dumps(dataclasses.asdict(facts))
    assert "vllm --api-key *****" in told
    assert SECRET not in told


def test_a_part_that_fails_with_megabytes_of_words_is_told_in_a_few() -> None:
    class Wordy(FakeHost):
        def read(self, path: str, limit: int = 1 << 22) -> bytes | None:
            if path == "/proc/cpuinfo":
                raise RuntimeError(f"HF_TOKEN={SECRET} " * 100_000)
            return super().read(path, limit)

    facts = node.collect(Wordy({}), node.Options())
    told = json.dumps(dataclasses.asdict(facts))
    assert "RuntimeError: HF_TOKEN=***" in told
    assert SECRET not in told
    assert len(told) < 20_000


def test_commands_are_given_no_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "OPENAI_API_KEY", "DB_PASSWORD", "MY_SECRETS", "KEY", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/cuda/lib64")
    said = Host().run(["env"], 20).stdout
    assert SECRET not in said
    assert "LD_LIBRARY_PATH=/opt/cuda/lib64\n" in said
