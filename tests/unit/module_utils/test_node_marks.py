# SPDX-License-Identifier: Apache-2.0
"""Marks as they are read: that the file is there counts, whatever it holds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils import node_marks
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import NodeMark, QuarantinedDevice
from tests.support.fake_host import FakeHost

STATE = "/var/lib/llmgw"
CARD = "GPU-6a1b2c3d-0000-1111-2222-333344445555"


def read(files: dict[str, str | bytes], **more: Any) -> node_marks.Marks:
    host = FakeHost({f"{STATE}/{name}": content for name, content in files.items()}, **more)
    return node_marks.read(host, STATE, host.list(STATE) or ())


def test_a_node_without_marks_has_none() -> None:
    assert read({"generation": "3"}) == node_marks.Marks(quarantined=())


def test_a_mark_tells_by_whom_when_and_why() -> None:
    marks = read({"cordoned": json.dumps({"by": "ops@ctl1", "at": 1000.5, "reason": "new kernel"}), "drained": ""})
    assert (marks.cordoned, marks.cordon) == (True, NodeMark("ops@ctl1", 1000.5, "new kernel"))
    assert (marks.drained, marks.drain) == (True, NodeMark())
    assert marks.findings == ()


@pytest.mark.parametrize(
    "content",
    [b"{", b"\xff\xfe", b"[]", b"7", b"[" * 60_000, b'{"by": "x"}' + b" " * node_marks.LONGEST_FILE],
)
def test_a_mark_that_cannot_be_read_counts_and_is_told(content: bytes) -> None:
    marks = read({"cordoned": content, f"quarantine/{CARD}.json": content})
    assert (marks.cordoned, marks.cordon) == (True, NodeMark())
    assert marks.quarantined == (QuarantinedDevice(CARD),)
    assert [one.code for one in marks.findings] == ["mark-unreadable", "mark-unreadable"]
    assert [f"{STATE}/cordoned" in one.message for one in marks.findings] == [True, False]


def test_a_mark_of_wrong_words_tells_nothing_and_is_no_error() -> None:
    said = json.dumps({"by": 7, "at": "noon", "reason": ["x"], "since": True, "code": None})
    marks = read({"drained": said, f"quarantine/{CARD}.json": said})
    assert (marks.drain, marks.quarantined, marks.findings) == (NodeMark(), (QuarantinedDevice(CARD),), ())


def test_a_quarantined_device_is_the_one_that_its_file_is_named_after() -> None:
    said = json.dumps({"device": "GPU-other", "code": "gpu-lost", "message": "a\nb", "since": 5, "by": "o@c"})
    old = "MIG-GPU-6a1b/7/0"
    files = {f"quarantine/{name}": said for name in (f"{CARD}.json", node_marks.file_name(old) or "", "x.json", ".tmp")}
    assert read(dict(files)).quarantined == (
        QuarantinedDevice(CARD, "gpu-lost", "a b", 5.0, "o@c"),
        QuarantinedDevice(old, "gpu-lost", "a b", 5.0, "o@c"),
    )


def test_where_marks_of_devices_cannot_be_listed_they_are_unknown() -> None:
    class Closed(FakeHost):
        def list(self, path: str) -> tuple[str, ...] | None:
            return None if path.endswith("/quarantine") else super().list(path)

        def is_directory(self, path: str) -> bool:
            return path.endswith("/quarantine") or super().is_directory(path)

    host = Closed({f"{STATE}/quarantine/{CARD}.json": "{}"})
    marks = node_marks.read(host, STATE, host.list(STATE) or ())
    assert marks.quarantined is None
    assert [(one.code, one.severity) for one in marks.findings] == [("mark-unreadable", "warn")]


def test_no_number_of_other_files_hides_a_mark() -> None:
    junk = {f"quarantine/.{number:04}": "" for number in range(node_marks.MOST_DEVICES + 1)}
    assert read({**junk, f"quarantine/{CARD}.json": ""}).quarantined == (QuarantinedDevice(CARD),)


@pytest.mark.parametrize("files", [{"quarantine": "a file"}, {}])
def test_where_the_directory_of_the_marks_is_none_they_are_unknown(files: dict[str, str | bytes]) -> None:
    marks = read({"generation": "3", **files}, links={} if files else {f"{STATE}/quarantine": "/mnt/gone"})
    assert marks.quarantined is None
    (finding,) = marks.findings
    assert (finding.code, finding.severity) == ("mark-unreadable", "warn")
    assert "quarantine is no directory: which devices are quarantined is unknown" in finding.message


def test_signs_that_a_terminal_acts_on_are_left_out() -> None:
    said = "a\0b \x1b[2Jc\u202e d\u200b\x85e"
    marks = read({"cordoned": json.dumps({"reason": said})})
    assert marks.cordon is not None
    assert marks.cordon.reason == "ab [2Jc d e"


def test_a_secret_does_not_hide_behind_signs_that_are_left_out() -> None:
    assert "hf_abc" not in str(node_marks.text_of("to\0ken=hf_abcdefghijklmnop\x1bqrstuvwxyz01"))


def test_words_are_cut_put_on_one_line_and_kept_free_of_secrets() -> None:
    marks = read(
        {"cordoned": json.dumps({"reason": "a\r\n\tb " * 1000, "by": "x token=hf_abcdefghijklmnopqrstuvwxyz01"})}
    )
    assert marks.cordon is not None
    assert marks.cordon.reason is not None
    assert len(marks.cordon.reason) < 2 * node_marks.LONGEST_TEXT
    assert marks.cordon.reason.startswith("a b a b")
    assert "hf_abc" not in str(marks.cordon.by)


@given(st.text(max_size=60))
def test_no_name_of_a_device_leaves_its_directory(device: str) -> None:
    name = node_marks.file_name(device)
    if name is not None:
        assert "/" not in name
        assert not name.startswith(".")
        assert node_marks.device_of(name) == device


@given(st.from_regex(r"\A(GPU|MIG)-[0-9A-Za-z-]{1,100}(/[0-9]{1,4}/[0-9]{1,4})?\Z"))
def test_every_uuid_has_a_file_and_the_file_names_it(device: str) -> None:
    name = node_marks.file_name(device)
    assert name is not None
    assert node_marks.device_of(name) == device


@given(st.binary(max_size=200))
def test_whatever_a_mark_holds_reading_it_raises_nothing(content: bytes) -> None:
    marks = read({"cordoned": content, "drained": content, f"quarantine/{CARD}.json": content})
    assert (marks.cordoned, marks.drained, len(marks.quarantined or ())) == (True, True, 1)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["by", "at", "reason"]), inner),
        max_leaves=8,
    )
)
def test_whatever_json_a_mark_holds_what_is_told_of_it_can_be_written_down(said: Any) -> None:
    marks = read({"cordoned": json.dumps(said), f"quarantine/{CARD}.json": json.dumps(said)})
    json.dumps(marks.cordon, default=vars, allow_nan=False).encode("utf-8")
    assert marks.cordoned
