# SPDX-License-Identifier: Apache-2.0
"""Secrets never enter a capture (R10)."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.capture import saving, taking
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.secret_words import (
    is_secret_name,
    masked,
    masked_text,
    masked_words,
)
from tests.support.captured_machine import UNIT, Identity, Secrets, machine, options, unit_text
from tests.unit.capture.plain import plain

SECRET = "s3cr3t-Value_9x"
UNITS = Path(__file__).parents[1] / "units/golden"


def contents(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def test_no_secret_of_the_machine_is_anywhere_in_its_capture(tmp_path: Path) -> None:
    secrets = Secrets()
    host = machine(secrets=secrets)
    # Where they have no business: somebody wrote them into a unit, an engine prints them, an address has them.
    unit = unit_text(Identity(), f" --api-key {secrets.api_key}").replace(
        "User=", f"Environment=HF_TOKEN={SECRET}\nUser="
    )
    host.files[f"/etc/systemd/system/{UNIT}"] = unit
    host.commands["/opt/sim --version"] = f"sim 1.0.0\nAuthorization: Bearer {SECRET}\n{secrets.hub_token}\n"
    host.files["/proc/self/mountinfo"] = (
        str(host.files["/proc/self/mountinfo"])
        + f"41 21 0:51 / /m rw - cifs //nas/x rw,username=op,password={SECRET}\n"
    )
    recording, facts = taking.take(host, options())
    saving.save(recording, str(tmp_path / "c.tar.gz"), "n1")
    everything = contents(tmp_path / "c.tar.gz")
    for secret in (*secrets.all(), SECRET):
        assert secret.encode() not in everything
    replayed = plain(taking.facts_in(recording, "1.2.3"))
    assert facts.units is not None
    assert facts.units[0].edited is True, "a unit with a secret in it was edited by hand"
    for kept in ("gateway", "engines", "gpus", "filesystems", "findings"):
        assert replayed[kept] == plain(facts)[kept]


def test_a_secret_that_is_known_from_one_place_is_masked_in_every_other() -> None:
    host = machine()
    host.files["/proc/77/environ"] = "ENGINE_SECRET=plain words only\0SHORT_TOKEN=on\0"
    host.commands["systemctl --version"] = "systemd 255\n+plain words only, and tok-5f2a9c7e81d34b60 is on\n"
    recording, _facts = taking.take(host, options())
    assert "plain words" not in str(recording)
    assert "tok-5f2a" not in str(recording)
    assert " is on" in str(recording), "a word is no secret because a short one is"


def test_without_planted_secrets_nothing_is_masked_that_facts_need() -> None:
    recording, facts = taking.take(machine(), options())
    assert plain(taking.facts_in(recording, "1.2.3")) == plain(facts)
    kept = {
        str(call.of[0]): answers[0].contents["content"]
        for call, answers in recording.calls.items()
        if call.method == "read" and "content" in answers[0].contents
    }
    assert kept["/proc/77/environ"] == b"LLMGW_PROCESS_DIGEST=sha256:" + b"ab" * 32
    assert kept["/etc/llmgw/admin-token"] == b"(kept out of the capture)"
    assert b"routes_digest" in kept["/var/lib/llmgw/bundle.json"]
    assert b"keys" not in kept["/var/lib/llmgw/bundle.json"]


def test_clients_of_a_machine_are_not_in_its_capture() -> None:
    recording, facts = taking.take(machine(), options())
    (table,) = (
        answers[0].contents["content"]
        for call, answers in recording.calls.items()
        if call.of[0:1] == ("/proc/net/tcp",)
    )
    assert len(table.splitlines()) == 2
    assert b"C350" not in table
    assert facts.system is not None
    assert facts.system.listening_ports == (18000,)


@pytest.mark.parametrize(
    "bundle", ["{", "[]", "7", '{"generation": 3, "admin_token": "' + SECRET + '"}', "[" * 100_000]
)
def test_a_bundle_that_is_none_is_kept_without_what_is_in_it(bundle: str) -> None:
    host = machine()
    host.files["/var/lib/llmgw/bundle.json"] = bundle
    recording, facts = taking.take(host, options())
    assert SECRET not in str(recording)
    replayed = taking.facts_in(recording, "1.2.3")
    assert replayed.gateway == facts.gateway
    assert [finding.code for finding in replayed.findings] == [finding.code for finding in facts.findings]


def test_a_token_that_is_missing_or_empty_is_missed_in_the_replay_too() -> None:
    for content in ("", " \n", None):
        host = machine()
        if content is None:
            del host.files["/etc/llmgw/admin-token"]
        else:
            host.files["/etc/llmgw/admin-token"] = content
        recording, facts = taking.take(host, options())
        assert "gateway-token-missing" in [finding.code for finding in facts.findings]
        assert plain(taking.facts_in(recording, "1.2.3")) == plain(facts)


def test_a_secret_in_an_engines_command_line_is_masked_in_options_and_calls_alike() -> None:
    host = machine()
    host.commands[f"/opt/sim --api-key {SECRET} --version"] = "sim 2.0\n"
    given = {"sim": ("/opt/sim", "--api-key", SECRET)}
    from dataclasses import replace  # noqa: PLC0415

    recording, facts = taking.take(host, replace(options(), engine_commands=given))
    assert SECRET not in str(recording)
    assert [one.version for one in facts.engines or ()] == ["2.0"]
    assert [one.version for one in taking.facts_in(recording).engines or ()] == ["2.0"]


@pytest.mark.parametrize(
    "text",
    [
        f"HF_TOKEN={SECRET}",
        f'Environment="HF_TOKEN={SECRET} and more" OTHER=1',
        f"Environment='API_KEY={SECRET} x'",
        f'API_KEY="{SECRET} x"',
        f"exec vllm serve --api-key {SECRET} --port 1",
        f"--api-key={SECRET}",
        f"--admin-token '{SECRET}'",
        f"vllm\0--api-key\0{SECRET}\0--port\0001",
        f'{{"hf_token": "{SECRET}", "a": 1}}',
        f'{{"Authorization": "Bearer {SECRET}"}}',
        f"Authorization: Basic {SECRET}",
        f"curl -H 'X: Bearer {SECRET}'",
        f"http://op:{SECRET}@proxy:3128/",
        f"password={SECRET},vers=3",
        f"AWS_SECRET_ACCESS_KEY={SECRET}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET.replace('-', '/')}\n-----END RSA PRIVATE KEY-----",
        "x hf_AbCdEfGhIjKlMnOpQrStUvWx y",
        "x ghp_0123456789012345678901234567890123456789 y",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w",
    ],
)
def test_a_secret_is_seen_by_its_name_or_its_shape(text: str) -> None:
    hidden = masked_text(text)
    assert len(hidden) == len(text)
    assert "*" in hidden
    for part in (SECRET, SECRET.replace("-", "/"), "AbCdEfGhIj", "0123456789012", "IOSFODNN7", "dozjgNryP4"):
        assert part not in hidden


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=4096 --max-num-batched-tokens 8192 --tokenizer x",
        "monkey=1 pkey=0xffff keyboard=us tokenizer.ggml.model",
        "--ssl-keyfile /etc/tls/key.pem --port 80",
        "<gpu_part_number>900-21001</gpu_part_number> <serial>1650</serial>",
        '"eos_token_id": 2, "model_type": "llama"',
        "http://127.0.0.1:18000/health a@b",
        "--api-key --port 80",
        "sha256:" + "ab" * 32,
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert masked_text(text) == text


def test_the_word_after_the_name_of_a_secret_is_one() -> None:
    assert masked_words(["x", "--api-key", "abc", "--port", "1"]) == ("x", "--api-key", "***", "--port", "1")
    assert masked_words(["--api-key", "--port", "1"]) == ("--api-key", "--port", "1")
    assert is_secret_name("VLLM_API_KEY")
    assert not is_secret_name("VLLM_API_KEYFILE")


@given(st.binary(max_size=300))
def test_masking_changes_no_length(content: bytes) -> None:
    assert len(masked(content)) == len(content)


@pytest.mark.parametrize(
    "piece",
    [b'"a_token=', b"--token ", b"token=", b"a.", b'token": "', b"://a:", b"PRIVATE KEY-----", b"eyJaaaaaaaaaa."],
)
def test_masking_a_long_text_takes_no_longer_than_reading_it(piece: bytes) -> None:
    masked(piece * (1_000_000 // len(piece)))


@pytest.mark.parametrize("name", ["vllm-with-secrets", "vllm-group-with-secrets-and-access", "vllm-user-with-secrets"])
def test_what_units_say_of_secrets_by_name_stays_as_it_is(name: str) -> None:
    text = (UNITS / f"{name}.service").read_bytes()
    assert b"LoadCredential=" in text
    assert b"--secret " in text
    assert masked(text) == text


@pytest.mark.parametrize(
    "text",
    [
        b"SetCredential=hub:hunter2-abc",
        b"guard.py --secret API_KEY=hunter2-abc",
        b"/x --secret API_KEY=hunter2-abc",
        b"x ApiKey=hunter2-abc",
        b"Environment=API_KEY=hunter2-abc\nLoadCredential=hub:/var/lib/llmgw/secrets/hub\n",
    ],
)
def test_what_only_looks_like_that_is_masked(text: bytes) -> None:
    assert b"hunter2" not in masked(text)
    assert len(masked(text)) == len(text)
