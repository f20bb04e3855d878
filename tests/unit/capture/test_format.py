# SPDX-License-Identifier: Apache-2.0
"""A capture's files have names that people find, and a capture that is none says what is wrong with it."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.capture import loading, saving
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.errors import CaptureError
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.names import Names, part
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.recorder import RecordingHost
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.recording import Answer, Call, Recording
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.withheld import Withheld
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Result
from tests.support.fake_host import FakeHost

OUTSIDE = b"the machine's own business"


def small() -> Recording:
    host = FakeHost({"/etc/a": b"\x00\xff", "/etc/b/c": "x"}, commands={"tool -x": Result(3, "out\n", "err\n")})
    recorder = RecordingHost(host, Withheld())
    recorder.run(("tool", "-x"), 5.0)
    recorder.read("/etc/a")
    recorder.read("/etc/b/c")
    recorder.list("/etc")
    return Recording({"scope": "user"}, 1_700_000_000.5, "1.2.3", recorder.calls())


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """A capture as a directory."""
    for name, content in saving.files_of(small()).items():
        path = tmp_path / "capture" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "capture"


def change(capture: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    index = json.loads((capture / "capture.json").read_text())
    edit(index)
    (capture / "capture.json").write_text(json.dumps(index))


def why(path: Path) -> str:
    with pytest.raises(CaptureError) as caught:
        loading.load(str(path))
    assert caught.value.where.startswith(str(path))
    assert caught.value.fix[0].islower()
    assert not caught.value.fix.endswith("."), "it follows `fix:` as those of all other errors"
    return caught.value.why


def test_the_files_have_names_that_people_find() -> None:
    files = saving.files_of(small())
    assert list(files) == [
        "capture.json",
        "commands/tool_-x.txt",
        "commands/tool_-x.stderr.txt",
        "files/etc/a",
        "files/etc/b/c",
    ]
    assert files["files/etc/a"] == b"\x00\xff"
    index = files["capture.json"].decode()
    assert '{"call": "run", "of": ["tool", "-x"], "answers": [{"rc": 3, "stdout": "commands/tool_-x.txt"' in index
    assert json.loads(index)["about"].endswith("llmgw facts local --capture FILE")


def test_only_the_owner_may_read_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "c.tar.gz"
    path.write_text("older")
    size = saving.save(small(), str(path), "n1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_size == size
    assert [one.name for one in tmp_path.iterdir()] == ["c.tar.gz"]
    with tarfile.open(path) as archive:
        assert {(one.name.split("/")[0], one.mode, one.uid) for one in archive} == {("n1", 0o600, 0)}
    assert loading.load(str(path)) == small()


def test_an_archive_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    with pytest.raises(OSError, match="directory"):
        saving.save(small(), str(tmp_path / "c"), "n1")
    with pytest.raises(FileNotFoundError):
        saving.save(small(), str(tmp_path / "none/c"), "n1")
    assert [one.name for one in tmp_path.iterdir()] == ["c"]


def test_names_cannot_leave_the_capture_nor_meet_one_another() -> None:
    names = Names()
    paths = [
        "/a",
        "/A",
        "/a/b",
        "/../../etc/x",
        "//",
        "/" + "long" * 200,
        "/a\n\0\udc80",
        "/.hidden",
        "/a ",
        "/x" * 500,
    ]
    found = [names.name(Call("read", (path, 1)), "content", 0) for path in paths]
    found += [names.name(Call("run", ("x", "/")), content, time) for content in ("stdout", "stderr") for time in (0, 1)]
    found += [names.name(Call("fetch", ("http://h:1/a?b",)), "body", 0)]
    assert len({name.lower() for name in found}) == len(found)
    for name in found:
        assert ".." not in name.split("/")
        assert all(0 < len(one) < 200 for one in name.split("/"))
        assert not any(other.lower().startswith(f"{name.lower()}/") for other in found)
    assert found[-1] == "http/http_h:1_a_b.txt"


@given(st.text())
def test_any_text_makes_one_part_of_a_path(text: str) -> None:
    made = part(text)
    assert made.isascii()
    assert made not in {"", ".", ".."}
    assert "/" not in made
    assert len(made) < 102


@given(st.lists(st.tuples(st.text(max_size=6), st.binary(max_size=8)), max_size=8))
def test_whatever_a_machine_calls_its_files_a_capture_gives_them_back(files: list[tuple[str, bytes]]) -> None:
    calls = {Call("read", (f"/{name}", 9)): (Answer({}, {"content": content}),) for name, content in files}
    recording = Recording({}, 1.0, None, calls)
    assert loading._recording("x", saving.files_of(recording)) == recording


def test_what_is_no_capture_says_so(tmp_path: Path, unpacked: Path) -> None:
    assert why(tmp_path / "none") == "it cannot be read: no such file or directory"
    (tmp_path / "empty").mkdir()
    assert why(tmp_path / "empty") == "this is no capture: there is no capture.json in it"
    (tmp_path / "text").write_text("no archive")
    assert why(tmp_path / "text").startswith("it is no whole .tar.gz archive")
    os.mkfifo(tmp_path / "pipe")
    assert why(tmp_path / "pipe") == "it is neither a file nor a directory"
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as archive:
        archive.add(unpacked / "files", "files")
    assert why(tmp_path / "other.tar.gz") == "this is no capture: there is no capture.json in it"


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda index: index.update(format="zip"), "it is not the index of a capture"),
        (lambda index: index.update(format_version=2), "it has format version 2, unknown to this llmgw"),
        (lambda index: index.update(format_version=None), "it has format version None"),
        (lambda index: index.update(calls={}), "call 0 is not as llmgw writes it"),
        (lambda index: index.update(calls=[7]), "call 0 is not as llmgw writes it"),
        (lambda index: index["calls"][1].pop("of"), "call 1 has no 'of'"),
        (lambda index: index["calls"][1].update(of="x"), "call 1 is not as llmgw writes it: words were expected"),
        (lambda index: index["calls"][1].update(of=[None]), "call 1 is not as llmgw writes it: words were expected"),
        (lambda index: index["calls"][1].update(answers=7), "call 1 is not as llmgw writes it"),
        (lambda index: index["calls"][1].update(answers=[7]), "call 1 is not as llmgw writes it"),
        (lambda index: index["calls"][1].update(call=[]), "call 1 is not as llmgw writes it"),
        (lambda index: index["calls"][0]["answers"][0].update(rc="x"), "a command's exit status was expected"),
        (
            lambda index: index["calls"][3]["answers"][0].update(value=7),
            "an answer of another kind was expected than '7'",
        ),
        (lambda index: index["calls"][1]["answers"][0].update(content="none"), "the file none is not in the capture"),
        (lambda index: index["calls"][1]["answers"][0].update(content=7), "call 1 is not as llmgw writes it"),
        (lambda index: index["calls"][1]["answers"][0].update(content="a\0b"), "call 1 is not as llmgw writes it"),
        (lambda index: index["calls"][1]["answers"][0].update(content="files"), "the file files is not in the capture"),
        (lambda index: index["calls"][1]["answers"][0].update(content=""), "the file  is not in the capture"),
    ],
)
def test_a_damaged_index_says_where_it_is_wrong(
    unpacked: Path, edit: Callable[[dict[str, Any]], None], reason: str
) -> None:
    change(unpacked, edit)
    assert reason in why(unpacked)


def test_an_index_that_is_cut_or_endlessly_nested_says_so(unpacked: Path) -> None:
    whole = (unpacked / "capture.json").read_bytes()
    for text in (whole[:300], b"", b"[" * 200_000, b"\xff\xfe", b"[]"):
        (unpacked / "capture.json").write_bytes(text)
        assert why(unpacked).startswith(("it is not whole JSON", "it is not the index of a capture"))


def test_methods_of_a_newer_llmgw_are_passed_over(unpacked: Path) -> None:
    change(unpacked, lambda index: index["calls"].append({"call": "dream", "of": ["x"], "answers": [{"of": "sheep"}]}))
    loaded = loading.load(str(unpacked))
    assert {call: answers for call, answers in loaded.calls.items() if answers} == small().calls


@pytest.mark.parametrize("name", ["../outside", "files/../../outside", "{absolute}", "link", "folder/outside"])
def test_a_hostile_capture_reads_nothing_outside_itself(unpacked: Path, name: str) -> None:
    outside = unpacked.parent / "outside"
    outside.write_bytes(OUTSIDE)
    (unpacked / "link").symlink_to(outside)
    (unpacked / "folder").symlink_to(unpacked.parent)
    name = name.replace("{absolute}", str(outside))
    change(unpacked, lambda index: index["calls"][1]["answers"][0].update(content=name))
    assert "is not in the capture" in why(unpacked)
    with tarfile.open(unpacked.parent / "c.tar.gz", "w:gz") as archive:
        archive.add(unpacked, "n1")
    assert "is not in the capture" in why(unpacked.parent / "c.tar.gz")


def test_a_link_inside_the_capture_is_followed(unpacked: Path) -> None:
    (unpacked / "link").symlink_to("files/etc/b/c")
    change(unpacked, lambda index: index["calls"][1]["answers"][0].update(content="link"))
    assert loading.load(str(unpacked)).calls[Call("read", ("/etc/a", 4194304))][0].contents["content"] == b"x"


def test_pipes_and_devices_are_not_read(unpacked: Path) -> None:
    os.mkfifo(unpacked / "pipe")
    change(unpacked, lambda index: index["calls"][1]["answers"][0].update(content="pipe"))
    assert "the file pipe is not in the capture" in why(unpacked)


def test_a_capture_larger_than_any_is_not_unpacked(
    tmp_path: Path, unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saving.save(small(), str(tmp_path / "c.tar.gz"), "n1")
    monkeypatch.setattr(loading, "_MOST_BYTES", 100)
    assert why(tmp_path / "c.tar.gz") == "it holds more than any capture that llmgw makes"
    assert why(unpacked) == "it holds more than any capture that llmgw makes"
    monkeypatch.undo()
    monkeypatch.setattr(loading, "_MOST_FILES", 2)
    assert why(tmp_path / "c.tar.gz") == "it holds more than any capture that llmgw makes"
    monkeypatch.undo()
    with gzip.open(tmp_path / "bomb.tar.gz", "wb", compresslevel=1) as file:
        entry = tarfile.TarInfo("n1/big")
        entry.size = 1 << 33
        file.write(entry.tobuf())
    assert why(tmp_path / "bomb.tar.gz") == "it holds more than any capture that llmgw makes"


def test_an_archive_whose_headers_have_no_end_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = tarfile.TarInfo("n1/x")
    entry.type = tarfile.XHDTYPE
    entry.size = 1 << 20
    with gzip.open(tmp_path / "bomb.tar.gz", "wb") as file:
        file.write(entry.tobuf() + bytes(entry.size))
    monkeypatch.setattr(loading, "_MOST_BYTES", 100_000)
    assert why(tmp_path / "bomb.tar.gz") == "it holds more than any capture that llmgw makes"


@given(st.data())
def test_no_damage_to_an_archive_ends_in_anything_but_its_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    packed = gzip.compress(plain_archive()) if data.draw(st.booleans()) else None
    content = bytearray(packed or plain_archive())
    for _time in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    written = bytes(content) if packed else gzip.compress(bytes(content))
    path = tmp_path_factory.getbasetemp() / "damaged.tar.gz"
    path.write_bytes(written)
    with contextlib.suppress(CaptureError):
        loading.load(str(path))


def plain_archive() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in saving.files_of(small()).items():
            entry = tarfile.TarInfo(f"n1/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()
