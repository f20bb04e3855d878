# SPDX-License-Identifier: Apache-2.0
"""The real huggingface_hub, against a hub of our own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights import read_weights
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching import fetch
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from tests.support.hub import Hub, Model, blob, serving, tensors

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
SMALL, LARGE, CHUNK = 3_000_000, 24_000_000, 10 * 1024 * 1024
"""Bytes of the shards, and what the library writes at a time: of a file that is held, whole chunks are on disk."""
HELD = 2 * CHUNK + 1000
INDEX = {
    "metadata": {"total_size": SMALL + LARGE},
    "weight_map": {f"weight{at}": name for at, name in enumerate(SHARDS)},
}
TINY = {
    "config.json": b'{"architectures": ["LlamaForCausalLM"]}',
    "generation_config.json": b"{}",
    "tokenizer.json": b'{"b": 1}',
    "tokenizer_config.json": b'{"a": 1}',
    "README.md": b"# Tiny",
    "model.safetensors.index.json": json.dumps(INDEX).encode(),
    SHARDS[0]: tensors(SMALL, 0),
    SHARDS[1]: tensors(LARGE, 1),
    "pytorch_model.bin": b"the same again" * 1000,
    "original/model.safetensors": tensors(4000, 2),
}
COMMIT = "a" * 40
PROGRAM = """
import json, sys
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching import fetch
fetch.fetch("org/tiny", None, fetch.Options(**json.loads(sys.argv[1])), print)
"""


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub({"org/tiny": Model(dict(TINY))})) as running:
        yield running


@pytest.fixture
def options(hub: Hub, tmp_path: Path) -> fetch.Options:
    directory = tmp_path / "models"
    directory.mkdir()
    return fetch.Options(
        str(directory), sys.executable, hub.address, timeout_s=50, margin_bytes=0, resumed_from=1_000_000
    )


def got(options: fetch.Options, revision: str | None = None) -> fetch.Fetched:
    return fetch.fetch("org/tiny", revision, options, lambda _line: None)


def seen(options: fetch.Options) -> tuple[Weights, ...]:
    return read_weights(Host(), [options.directory], ())[0]


def begun(options: fetch.Options) -> subprocess.Popen[bytes]:
    collections = Path(fetch.__file__).parents[6]
    command = [sys.executable, "-c", PROGRAM, json.dumps(vars(options))]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(collections)}, stdout=subprocess.DEVNULL)


def until(condition: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def partial(options: fetch.Options) -> int:
    total = 0
    for path in Path(options.directory).glob("models--*/blobs/*.incomplete"):
        with contextlib.suppress(FileNotFoundError):  # it is whole now
            total += path.stat().st_size
    return total


def children(hub: Hub) -> list[str]:
    """Processes that talk to this hub."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"HF_ENDPOINT={hub.address}".encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
    return found


def test_what_an_engine_needs_comes_and_nothing_else(options: fetch.Options) -> None:
    result = got(options)
    assert (result.action, result.commit) == ("fetched", COMMIT)
    wanted = set(TINY) - {"README.md", "pytorch_model.bin", "original/model.safetensors"}
    assert result.path is not None
    assert {path.name for path in Path(result.path).iterdir()} == wanted
    assert {name: (Path(result.path) / name).read_bytes() for name in wanted} == {name: TINY[name] for name in wanted}
    assert result.fetched_bytes == sum(len(TINY[name]) for name in wanted)
    (found,) = seen(options)
    assert (found.model, found.complete, found.revision, found.refs) == ("org/tiny", True, COMMIT, ("main",))
    assert found.path == result.path


def test_everybody_may_read_it_and_nobody_else_may_write_it(options: fetch.Options) -> None:
    got(options)
    for path in Path(options.directory).glob("models--org--tiny/**/*"):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644), path


def test_an_engine_without_network_finds_it(options: fetch.Options) -> None:
    got(options)
    ask = (
        "import huggingface_hub as h; print(h.snapshot_download('org/tiny', allow_patterns=['*.safetensors', '*.bin']))"
    )
    offline = {**os.environ, "HF_HUB_CACHE": options.directory, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ask], env=offline, check=False, capture_output=True, text=True, timeout=50
    )
    assert done.stdout.strip().endswith(COMMIT), done.stderr


def test_a_second_run_asks_nobody(hub: Hub, options: fetch.Options) -> None:
    first = got(options)
    asked = len(hub.asked)
    second = got(replace(options, python="/nowhere"))
    assert len(hub.asked) == asked
    assert (second.action, second.path, second.size_bytes) == ("there", first.path, first.size_bytes)


def test_a_branch_a_tag_and_a_commit_are_found_by_their_names(hub: Hub, options: fetch.Options) -> None:
    hub.models["org/tiny"].revisions |= {"v1": "b" * 40, "refs/pr/3": "c" * 40}
    assert got(options, "v1").commit == "b" * 40
    assert got(options, "c" * 40).commit == "c" * 40
    assert got(options).commit == COMMIT
    assert {one.revision for one in seen(options)} == {"a" * 40, "b" * 40, "c" * 40}
    assert got(options, "v1").action == got(options, "c" * 40).action == "there"


def test_weights_count_as_incomplete_until_the_last_byte(hub: Hub, options: fetch.Options) -> None:
    hub.hold_at[SHARDS[1]] = HELD
    thread = threading.Thread(target=got, args=(options,))
    thread.start()
    until(lambda: partial(options) >= 2 * CHUNK, "most of a shard")
    found = seen(options)
    assert found
    assert not any(one.complete for one in found)
    hub.go_on.set()
    thread.join(50)
    assert [one.complete for one in seen(options)] == [True]


def test_a_run_that_is_killed_in_the_middle_of_a_file_is_gone_on_with_there(hub: Hub, options: fetch.Options) -> None:
    hub.hold_at[SHARDS[1]] = HELD
    with begun(options) as process:
        until(lambda: partial(options) >= 2 * CHUNK, "most of a shard")
        process.send_signal(signal.SIGKILL)
    until(lambda: not children(hub), "what it had started to end with it")
    assert not any(one.complete for one in seen(options))
    hub.hold_at.clear()
    hub.go_on.set()
    before = len(hub.gets(SHARDS[0]))
    lines: list[str] = []
    result = fetch.fetch("org/tiny", None, options, lines.append)
    assert [one.complete for one in seen(options)] == [True]
    assert len(hub.gets(SHARDS[0])) == before == 1, "a file that was whole is not fetched again"
    (resumed,) = [asked for asked in hub.gets(SHARDS[1]) if asked]
    assert resumed == f"bytes={2 * CHUNK}-"
    assert result.fetched_bytes == len(TINY[SHARDS[1]]) - 2 * CHUNK
    assert any("is gone and left its fetching undone" in line for line in lines)


def test_what_the_library_left_behind_is_removed_and_what_somebody_fetches_now_is_not(
    options: fetch.Options,
) -> None:
    got(options)
    repository = Path(options.directory) / "models--org--tiny"
    dead, live = (repository / "blobs" / f"{name * 64}.0a1b2c3d.incomplete" for name in "12")
    (Path(options.directory) / ".locks/models--org--tiny" / f"{'2' * 64}.lock").touch()
    dead.write_bytes(b"dead")
    live.write_bytes(b"live")
    (repository / "snapshots" / COMMIT / SHARDS[0]).unlink()
    command = ["flock", str(Path(options.directory) / f".locks/models--org--tiny/{'2' * 64}.lock"), "sleep", "60"]
    with subprocess.Popen(command, start_new_session=True) as other:
        until(lambda: Path(f"/proc/{other.pid}/task/{other.pid}/children").read_text().strip(), "the lock")
        got(options)
        os.killpg(other.pid, signal.SIGKILL)
    assert not dead.exists()
    assert live.exists()


def test_a_file_of_another_size_than_the_hub_has_is_fetched_again(hub: Hub, options: fetch.Options) -> None:
    result = got(options)
    assert result.path is not None
    os.truncate(os.path.realpath(f"{result.path}/{SHARDS[1]}"), 1_500_000)
    assert [one.complete for one in seen(options)] == [False]
    assert got(options).action == "fetched"
    assert (Path(result.path) / SHARDS[1]).read_bytes() == TINY[SHARDS[1]]
    assert len(hub.gets(SHARDS[0])) == 1


def test_what_an_earlier_run_left_and_is_not_the_beginning_of_the_file_is_not_kept(
    options: fetch.Options,
) -> None:
    blobs = Path(options.directory) / "models--org--tiny/blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{blob(TINY[SHARDS[0]])}.llmgw.incomplete").write_bytes(b"x" * 2_000_000)
    with pytest.raises(fetch.FetchFailed, match="do not belong together"):
        got(options)
    assert not any(one.complete for one in seen(options))
    assert got(options).action == "fetched"


def test_an_answer_that_ends_too_early_is_a_failure_and_the_next_run_mends_it(hub: Hub, options: fetch.Options) -> None:
    hub.cut_at["tokenizer.json"] = 1
    with pytest.raises(fetch.FetchFailed, match="What came stays; apply again"):
        got(options)
    assert not any(one.complete for one in seen(options))
    hub.cut_at.clear()
    assert got(options).action == "fetched"


def test_without_a_token_a_private_model_is_refused_and_with_one_it_comes(
    hub: Hub, options: fetch.Options, tmp_path: Path
) -> None:
    hub.models["org/tiny"].token = "hf_secret"
    with pytest.raises(fetch.FetchFailed, match="secret `hf-token`"):
        got(options)
    token = tmp_path / "hf-token"
    token.write_text("hf_wrong\n")
    with pytest.raises(fetch.FetchFailed, match=r"Is the token in .* still good"):
        got(replace(options, token_file=str(token)))
    token.write_text("hf_secret\n")
    assert got(replace(options, token_file=str(token))).action == "fetched"
    assert {authorization for _path, authorization in hub.tokens} == {"Bearer hf_wrong", "Bearer hf_secret"}
    assert not any(path.startswith("/store") for path, _authorization in hub.tokens), "the store is another's host"
    leaked = subprocess.run(
        ["grep", "-rl", "hf_secret", options.directory], check=False, capture_output=True, timeout=20
    )
    assert leaked.stdout == b""


def test_a_gated_model_says_who_must_let_whom_in(hub: Hub, options: fetch.Options) -> None:
    hub.models["org/tiny"].token, hub.models["org/tiny"].gated = "other", True
    with pytest.raises(fetch.FetchFailed, match="is gated"):
        got(options)


def test_the_token_is_in_no_argument_list_and_no_environment(hub: Hub, options: fetch.Options, tmp_path: Path) -> None:
    (tmp_path / "hf-token").write_text("hf_secret\n")
    hub.models["org/tiny"].token = "hf_secret"
    hub.hold_at[SHARDS[1]] = HELD
    with begun(replace(options, token_file=str(tmp_path / "hf-token"))) as process:
        until(lambda: partial(options) >= 2 * CHUNK, "most of a shard")
        family = [process.pid, *map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())]
        assert len(family) > 1
        for pid in family:
            for what in ("cmdline", "environ"):
                assert b"hf_secret" not in Path(f"/proc/{pid}/{what}").read_bytes()
        process.kill()


@pytest.mark.parametrize(
    ("wanted", "said"), [(("org/none", None), "shows nobody org/none"), (("org/tiny", "v9"), "no revision v9")]
)
def test_what_the_hub_does_not_have_is_named(options: fetch.Options, wanted: tuple[str, str | None], said: str) -> None:
    with pytest.raises(fetch.FetchFailed, match=said):
        fetch.fetch(*wanted, options, lambda _line: None)
    assert seen(options) == ()


def test_a_hub_that_does_not_answer_is_named(options: fetch.Options) -> None:
    with pytest.raises(fetch.FetchFailed, match=r"http://127.0.0.1:9 does not answer this host: .*llmgw_hf_endpoint"):
        got(replace(options, endpoint="http://127.0.0.1:9"))


def test_a_python_without_the_library_says_what_to_do(options: fetch.Options) -> None:
    for python in ("/usr/bin/python3", "/nowhere/python"):
        if python == "/nowhere/python" or shutil.which(python):
            with pytest.raises(fetch.FetchFailed, match=r"llmgw\.fleet\.weights"):
                got(replace(options, python=python))


def test_a_disk_that_is_too_small_is_seen_before_anything_large_comes(hub: Hub, options: fetch.Options) -> None:
    with pytest.raises(fetch.FetchFailed, match=r"has .* free and needs 27\.0 MB for what is still to fetch"):
        got(replace(options, margin_bytes=10**18))
    assert hub.gets(SHARDS[0]) == hub.gets(SHARDS[1]) == []


def test_what_is_there_already_needs_no_room(hub: Hub, options: fetch.Options) -> None:
    hub.hold_at[SHARDS[1]] = HELD
    with begun(options) as process:
        until(lambda: partial(options) >= 2 * CHUNK, "most of a shard")
        process.kill()
    with pytest.raises(fetch.FetchFailed, match=r"needs 3\.0 MB for what is still to fetch"):
        got(replace(options, margin_bytes=10**18))


def test_two_at_once_fetch_every_file_once(hub: Hub, options: fetch.Options) -> None:
    results: list[fetch.Fetched] = []
    threads = [threading.Thread(target=lambda: results.append(got(options))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert sorted(one.action for one in results) == ["fetched", "there"]
    assert [len(hub.gets(name)) for name in SHARDS] == [1, 1]


def test_when_nothing_comes_it_is_given_up(hub: Hub, options: fetch.Options) -> None:
    hub.hold_at[SHARDS[1]] = HELD
    with pytest.raises(fetch.FetchFailed, match="Nothing came for 2 s"):
        got(replace(options, stall_s=2))


def test_when_it_takes_too_long_it_is_given_up_and_leaves_no_process(hub: Hub, options: fetch.Options) -> None:
    hub.hold_at[SHARDS[1]] = HELD
    with pytest.raises(fetch.FetchFailed, match="took more than 3 s"):
        got(replace(options, timeout_s=3))
    assert children(hub) == []
    hub.hold_at.clear()
    hub.go_on.set()
    assert got(options).action == "fetched"


def test_a_repository_of_gguf_files_says_how_to_name_one(hub: Hub, options: fetch.Options) -> None:
    hub.models["org/tiny"].files = {"a-Q4_K_M.gguf": b"GGUF", "a-Q8_0.gguf": b"GGUF", "README.md": b""}
    with pytest.raises(fetch.FetchFailed, match=r"2 GGUF files .* Name its weights by `path` instead"):
        got(options)


def test_weights_that_are_broken_on_the_hub_are_not_called_fetched(hub: Hub, options: fetch.Options) -> None:
    hub.models["org/tiny"].files[SHARDS[1]] = TINY[SHARDS[1]][:20_000_000]
    with pytest.raises(fetch.FetchFailed, match=f"not whole: {re.escape(SHARDS[1])} is missing or broken"):
        got(options)
