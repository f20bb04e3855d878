# SPDX-License-Identifier: Apache-2.0
"""The search for weights as a whole: where they lie, what bounds it, and what keeps it from seeing all (D12)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Filesystem, Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights import read_weights
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import Bounds
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Entry, Host, Listing, NoAnswer
from tests.support.fake_host import FakeHost
from tests.support.model_files import gguf, hub_repository, model, write

FILE = gguf()
MOUNTS = """1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 0:50 / /share rw - nfs4 filer:/models rw
3 1 0:51 / /again rw - nfs4 filer:/models ro
"""
DISK = Filesystem("/", shared=False, directories=("/models",))
SHARE = Filesystem("/share", shared=True, directories=("/share",))


def names(host: Host, *directories: str, bounds: Bounds | None = None) -> list[str]:
    return [found.path for found in read_weights(host, directories, [], bounds=bounds)[0]]


def findings(host: Host, *directories: str, bounds: Bounds | None = None) -> list[tuple[str, str | None]]:
    return [(one.code, one.subject) for one in read_weights(host, directories, [], bounds=bounds)[1]]


def placed(host: Host, *directories: str) -> list[tuple[str, str | None, bool | None]]:
    found = read_weights(host, directories, [DISK, SHARE])[0]
    return [(one.path, one.mount_point, one.shared) for one in found]


def test_the_search_is_not_deep() -> None:
    host = FakeHost({"/m/a.gguf": FILE, "/m/1/2/3/4/e.gguf": FILE, "/m/1/2/3/4/5/f.gguf": FILE})
    assert names(host, "/m") == ["/m/1/2/3/4/e.gguf", "/m/a.gguf"]


def test_directories_that_overlap_tell_a_file_once() -> None:
    host = FakeHost({"/m/1/b.gguf": FILE})
    assert names(host, "/m", "/m/1", "/m/") == ["/m/1/b.gguf"]


def test_a_directory_below_another_is_searched_to_its_own_depth() -> None:
    host = FakeHost({"/m/1/2/3/4/5/6/b.gguf": FILE})
    assert names(host, "/m", "/m/1/2/3/4/5") == ["/m/1/2/3/4/5/6/b.gguf"]


def test_one_directory_under_two_names_is_searched_once(tmp_path: Path) -> None:
    write(tmp_path / "b", {"tiny.gguf": FILE})
    (tmp_path / "a").symlink_to("b")
    assert names(Host(), str(tmp_path / "a"), str(tmp_path / "b")) == [str(tmp_path / "a" / "tiny.gguf")]


def test_weights_have_the_filesystem_of_their_directory_where_mounts_are_unknown() -> None:
    assert placed(FakeHost({"/models/a.gguf": FILE}), "/models") == [("/models/a.gguf", "/", False)]


def test_a_share_that_is_mounted_inside_a_model_directory_is_told_apart() -> None:
    host = FakeHost({"/proc/self/mountinfo": MOUNTS, "/share/a.gguf": FILE, "/models/b.gguf": FILE})
    assert placed(host, "/") == [("/models/b.gguf", "/", False), ("/share/a.gguf", "/share", True)]


def test_one_share_mounted_twice_is_one_filesystem() -> None:
    host = FakeHost({"/proc/self/mountinfo": MOUNTS, "/again/a.gguf": FILE})
    assert placed(host, "/again") == [("/again/a.gguf", "/share", True)]


@pytest.mark.parametrize("name", ["a.gguf", "a-00001-of-00002.gguf"])
def test_a_link_from_a_disk_to_a_share_is_on_the_share(name: str) -> None:
    part = gguf(split=(0, 2)) if "-" in name else FILE
    files: dict[str, str | bytes] = {"/proc/self/mountinfo": MOUNTS, "/share/x/a.gguf": part}
    host = FakeHost(files, links={f"/models/{name}": "/share/x/a.gguf"})
    assert placed(host, "/models") == [(f"/models/{name}", "/share", True)]


def test_a_model_directory_that_is_a_link_is_where_it_leads_to() -> None:
    host = FakeHost({"/proc/self/mountinfo": MOUNTS, "/share/x/a.gguf": FILE}, links={"/models": "/share/x"})
    assert placed(host, "/models") == [("/models/a.gguf", "/share", True)]


class Hanging(FakeHost):
    """A machine on which one directory gives no answer until the test is over."""

    def __init__(self, files: dict[str, str | bytes], hangs: str) -> None:
        super().__init__(files)
        self.hangs = hangs
        self.asked: list[str] = []
        self.over = threading.Event()

    def scan(self, path: str, limit: int = 20_000) -> Listing:
        self.asked.append(path)
        if path == self.hangs:
            self.over.wait(30)
        return super().scan(path, limit)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    mounts = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:50 / /m/dead rw - nfs4 filer:/models rw\n"
    files: dict[str, str | bytes] = {"/proc/self/mountinfo": mounts, "/m/z.gguf": FILE, "/n/y.gguf": FILE}
    host = Hanging(files | {"/m/dead/1/a.gguf": FILE, "/m/dead/2/b.gguf": FILE, "/m/live/c.gguf": FILE}, "/m/dead/1")
    yield host
    host.over.set()


def test_a_share_that_hangs_costs_what_is_on_it_and_nothing_else(hanging: Hanging) -> None:
    bounds = Bounds(20, answer_s=0.2)
    begun = time.monotonic()
    found, told = read_weights(hanging, ["/m", "/n"], [], bounds=bounds)
    assert [one.path for one in found] == ["/m/live/c.gguf", "/m/z.gguf", "/n/y.gguf"]
    assert [(one.code, one.subject) for one in told] == [("storage-hangs", "/m/dead/1")]
    assert "/m/dead/2" not in hanging.asked
    assert time.monotonic() - begun < 15


def test_what_a_call_gives_after_it_was_given_up_changes_nothing(hanging: Hanging) -> None:
    found, _told = read_weights(hanging, ["/m"], [], bounds=Bounds(20, answer_s=0.2))
    asked = len(hanging.asked)
    hanging.over.set()
    time.sleep(0.1)
    assert len(hanging.asked) == asked
    assert len(found) == 2


def test_time_that_is_up_keeps_what_was_found_and_says_where_more_may_be(hanging: Hanging) -> None:
    found, told = read_weights(hanging, ["/m", "/n"], [], bounds=Bounds(0.3, answer_s=20))
    assert [one.path for one in found] == ["/m/live/c.gguf", "/m/z.gguf", "/n/y.gguf"]
    assert [(one.code, one.subject) for one in told] == [("weights-search-cut", "/m")]


def test_a_stored_machine_says_at_once_that_there_is_no_answer() -> None:
    class Stored(FakeHost):
        def scan(self, path: str, limit: int = 20_000) -> Listing:
            if path == "/m/dead":
                raise NoAnswer(path)
            return super().scan(path, limit)

    host = Stored({"/m/dead/a.gguf": FILE, "/m/b.gguf": FILE})
    assert names(host, "/m") == ["/m/b.gguf"]
    assert findings(host, "/m") == [("storage-hangs", "/m/dead")]


class Endless(FakeHost):
    """A machine that has directories in every directory."""

    asked = 0

    def scan(self, path: str, limit: int = 20_000) -> Listing:
        del path, limit
        self.asked += 1
        return Listing(tuple(Entry(f"entry{number}", "directory") for number in range(50)))


def test_a_huge_directory_is_searched_within_bounds() -> None:
    host = Endless()
    assert findings(host, "/m", bounds=Bounds(60, calls=3_000)) == [("weights-search-cut", "/m")]
    assert host.asked <= 3_000


def test_calls_are_shared_out_among_the_model_directories() -> None:
    class Both(Endless):
        def scan(self, path: str, limit: int = 20_000) -> Listing:
            return FakeHost.scan(self, path, limit) if path.startswith("/small") else super().scan(path, limit)

    host = Both({"/small/1/2/a.gguf": FILE})
    assert names(host, "/huge", "/small", bounds=Bounds(60, calls=1_000)) == ["/small/1/2/a.gguf"]
    assert findings(host, "/huge", "/small", bounds=Bounds(60, calls=1_000)) == [("weights-search-cut", "/huge")]


def test_a_directory_with_more_names_than_are_read_is_told() -> None:
    class Cut(FakeHost):
        def scan(self, path: str, limit: int = 20_000) -> Listing:
            return super().scan(path, limit)._replace(cut=True)

    assert findings(Cut({"/m/a.gguf": FILE}), "/m") == [("weights-search-cut", "/m")]


def test_of_very_many_models_the_first_are_told(tmp_path: Path) -> None:
    for number in range(12):
        hub_repository(tmp_path, f"org/tiny{number:02d}", model(1))
    assert len(names(Host(), str(tmp_path), bounds=Bounds(60, most=10))) == 10
    assert findings(Host(), str(tmp_path), bounds=Bounds(60, most=10)) == [("weights-too-many", None)]
    assert findings(Host(), str(tmp_path), bounds=Bounds(60, most=12)) == []


def test_directories_that_may_not_be_entered_are_counted() -> None:
    host = FakeHost(
        {"/m/1/a": b"", "/m/2/b": b"", "/m/c.gguf": FILE, "/m/lost+found/d": b""},
        errors={"/m/1": "EACCES", "/m/2": "EACCES", "/m/lost+found": "EACCES"},
    )
    found, told = read_weights(host, ["/m"], [])
    assert [one.path for one in found] == ["/m/c.gguf"]
    assert [(one.code, one.severity, one.evidence) for one in told] == [("weights-denied", "info", ("/m/1", "/m/2"))]


def test_a_directory_that_answers_with_an_error_is_told_and_one_that_is_gone_is_not() -> None:
    files: dict[str, str | bytes] = {"/m/1/a": b"", "/m/2/b": b"", "/m/c.gguf": FILE}
    host = FakeHost(files, errors={"/m/1": "ESTALE", "/m/2": "ENOENT"})
    found, told = read_weights(host, ["/m"], [])
    assert [one.path for one in found] == ["/m/c.gguf"]
    assert [(one.code, one.evidence) for one in told] == [("weights-unreadable", ("/m/1: ESTALE",))]


def test_a_directory_that_cannot_be_read_for_any_other_reason_costs_itself_alone() -> None:
    class Odd(FakeHost):
        def scan(self, path: str, limit: int = 20_000) -> Listing:
            if path == "/m/odd":
                raise RuntimeError("odd")
            return super().scan(path, limit)

    host = Odd({"/m/odd/a.gguf": FILE, "/m/b.gguf": FILE})
    assert names(host, "/m") == ["/m/b.gguf"]
    assert findings(host, "/m") == [("weights-unreadable", "/m/odd")]


def test_a_name_that_no_file_can_have_costs_nothing_else() -> None:
    index = '{"weight_map": {"a": "\\ud800.safetensors", "b": "x\\u0000y.safetensors"}}'
    host = FakeHost({"/m/1/config.json": "{}", "/m/1/model.safetensors.index.json": index, "/m/b.gguf": FILE})
    found, told = read_weights(host, ["/m"], [])
    assert [(one.path, one.complete) for one in found] == [("/m/1", False), ("/m/b.gguf", True)]
    assert "?.safetensors" in found[0].missing
    assert told == ()


def test_no_directories_give_no_weights() -> None:
    assert read_weights(FakeHost(), [], []) == ((), ())


def test_a_search_costs_few_calls(tmp_path: Path) -> None:
    class Counting(Host):
        calls = 0

        def scan(self, path: str, limit: int = 20_000) -> Listing:
            self.calls += 1
            return super().scan(path, limit)

    for number in range(10):
        hub_repository(tmp_path, f"org/tiny{number}", model(2))
    host = Counting()
    assert len(names(host, str(tmp_path))) == 10
    assert host.calls <= 1 + 3 * 10


def test_weights_are_told_by_path() -> None:
    host = FakeHost({"/m/b.gguf": FILE, "/m/a.gguf": FILE})
    found, _findings = read_weights(host, ["/m"], [])
    assert [type(one) for one in found] == [Weights, Weights]
    assert names(host, "/m") == ["/m/a.gguf", "/m/b.gguf"]


def test_model_directories_on_a_share_that_hangs_are_asked_once() -> None:
    class Dead(FakeHost):
        asked: tuple[str, ...] = ()
        over = threading.Event()

        def realpath(self, path: str) -> str:
            if path.startswith("/share"):
                self.asked += (path,)
                self.over.wait(30)
            return super().realpath(path)

    host = Dead({"/proc/self/mountinfo": MOUNTS, "/models/a.gguf": FILE})
    found, told = read_weights(host, ["/models", "/share/a", "/share/b"], [], bounds=Bounds(20, answer_s=0.2))
    host.over.set()
    assert host.asked == ("/share/a",)
    assert [one.path for one in found] == ["/models/a.gguf"]
    assert [(one.code, one.subject) for one in told] == [("storage-hangs", "/share/a"), ("storage-hangs", "/share/b")]
