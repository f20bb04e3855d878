# SPDX-License-Identifier: Apache-2.0
"""A recording host answers as the machine does, and a replaying host answers the same without the machine."""

from __future__ import annotations

import inspect
import io
import threading
from typing import Any, BinaryIO

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.capture.answers import SHAPES
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.recorder import RecordingHost
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.recording import (
    LEFT_OUT,
    UNANSWERED,
    Answer,
    Call,
    Recording,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.replay import ReplayingHost
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.withheld import Withheld
from ansible_collections.llmgw.fleet.plugins.module_utils.host import (
    MISSING,
    Host,
    Listing,
    NoAnswer,
    Response,
    Result,
    Size,
    within,
)
from tests.support.fake_host import FakeHost

METHODS = sorted(name for name, value in vars(Host).items() if not name.startswith("_") and inspect.isfunction(value))


def magic(stream: BinaryIO) -> bytes:
    return stream.read(4)


CALLS: dict[str, tuple[Any, ...]] = {
    "run": (("nvidia-smi", "-L"), 5.0),
    "python": ("nvml", "print(1)", 5.0),
    "which": ("nvidia-smi",),
    "read": ("/etc/a",),
    "extract": ("/etc/a", "magic", magic),
    "list": ("/etc",),
    "scan": ("/etc",),
    "measure": ("/etc", "a", "b"),
    "readlink": ("/etc/link",),
    "realpath": ("/etc/link",),
    "exists": ("/etc/a",),
    "is_directory": ("/etc",),
    "size": ("/etc/a",),
    "statfs": ("/",),
    "clock": (),
    "machine": (),
    "python_version": (),
    "home": (),
    "variable": ("LLMGW_NO_SUCH_VARIABLE",),
    "fetch": ("http://127.0.0.1/x", 5.0, {"Authorization": "Bearer never"}),
}
ABSENT: dict[str, tuple[tuple[Any, ...], Any]] = {
    "run": ((("other",), 5.0), Result(MISSING, "", "other: command not found")),
    "python": (("other", "x", 5.0), Result(MISSING, "", "other: not in this capture")),
    "which": (("other",), None),
    "read": (("/other",), None),
    "extract": (("/other", "magic", magic), None),
    "list": (("/other",), None),
    "scan": (("/other",), Listing((), "ENOENT")),
    "measure": (("/other", "a", "b"), (Size(None, "ENOENT"), Size(None, "ENOENT"))),
    "readlink": (("/other",), None),
    "realpath": (("/other",), "/other"),
    "exists": (("/other",), False),
    "is_directory": (("/other",), False),
    "size": (("/other",), None),
    "statfs": (("/other",), None),
    "clock": ((), 7.0),
    "machine": ((), ""),
    "python_version": ((), ""),
    "home": ((), "/"),
    "variable": (("OTHER",), None),
    "fetch": (("http://other/", 5.0, {}), Response(None, b"", "not in this capture")),
}


def fake() -> FakeHost:
    return FakeHost(
        {"/etc/a": b"\xffabcdef"},
        commands={"nvidia-smi -L": Result(9, "GPU 0\n", "warning\n", timed_out=True)},
        links={"/etc/link": "a"},
        space={"/": (10, 5)},
        programs={"nvml": "{}"},
        answers={"http://127.0.0.1/x": Response(200, b"\x00body")},
    )


def recorder(host: Host | None = None) -> RecordingHost:
    return RecordingHost(host or fake(), Withheld())


def recording(calls: RecordingHost | dict[Call, tuple[Answer, ...]]) -> Recording:
    return Recording({}, 7.0, None, calls.calls() if isinstance(calls, RecordingHost) else calls)


def test_every_method_of_a_host_is_recorded_replayed_and_tested_here() -> None:
    assert set(METHODS) == set(SHAPES) == set(CALLS) == set(ABSENT)
    for kind in (RecordingHost, ReplayingHost):
        assert [name for name in METHODS if name not in vars(kind)] == []
        for name in METHODS:
            ours, hosts = (inspect.signature(getattr(one, name)) for one in (kind, Host))
            assert list(ours.parameters.values()) == list(hosts.parameters.values()), name


@pytest.mark.parametrize("name", METHODS)
def test_an_answer_is_given_on_and_replayed_as_it_was(name: str) -> None:
    recording_host = recorder()
    expected = getattr(fake(), name)(*CALLS[name])
    given = getattr(recording_host, name)(*CALLS[name])
    replayed = getattr(ReplayingHost(recording(recording_host)), name)(*CALLS[name])
    assert given == replayed == expected
    assert type(replayed) is type(expected)


@pytest.mark.parametrize("name", METHODS)
def test_what_was_not_asked_is_not_there(name: str) -> None:
    arguments, answer = ABSENT[name]
    assert getattr(ReplayingHost(recording({})), name)(*arguments) == answer


@pytest.mark.parametrize("name", METHODS)
def test_what_was_too_large_to_keep_is_not_there(name: str) -> None:
    host = recorder()
    getattr(host, name)(*CALLS[name])
    (call,) = host.calls()
    arguments, answer = (CALLS[name], ABSENT[name][1]) if name in {"clock", "home"} else ABSENT[name]
    of = recorder_call(name, arguments)
    assert getattr(ReplayingHost(recording({of: (LEFT_OUT,)})), name)(*arguments) == answer
    assert call == recorder_call(name, CALLS[name])


def recorder_call(name: str, arguments: tuple[Any, ...]) -> Call:
    host = recorder()
    getattr(host, name)(*arguments)
    return next(iter(host.calls()))


def test_answers_that_change_are_replayed_in_their_order_and_then_the_last() -> None:
    class Changing(FakeHost):
        times = iter([1.0, 1.0, 2.0, 3.0, 3.0, 3.0])

        def clock(self) -> float:
            return next(self.times)

    host = recorder(Changing())
    assert [host.clock() for _time in range(6)] == [1.0, 1.0, 2.0, 3.0, 3.0, 3.0]
    assert len(host.calls()[Call("clock", ())]) == 4
    replayed = ReplayingHost(recording(host))
    assert [replayed.clock() for _time in range(6)] == [1.0, 1.0, 2.0, 3.0, 3.0, 3.0]


def test_a_call_that_never_comes_back_is_replayed_as_one_that_does_not_answer() -> None:
    asked, over = threading.Event(), threading.Event()

    class Hanging(FakeHost):
        def exists(self, path: str) -> bool:
            asked.set()
            return path == "/dead" and not over.wait(30)

    host = recorder(Hanging())
    with pytest.raises(TimeoutError, match=r"^no answer within 0\.2 s$"):
        within(0.2, lambda: host.exists("/dead"))
    assert asked.is_set()
    assert host.calls()[Call("exists", ("/dead",))] == (UNANSWERED,)
    replayed = ReplayingHost(recording(host))
    over.set()
    with pytest.raises(NoAnswer):
        replayed.exists("/dead")
    with pytest.raises(TimeoutError, match=r"^no answer within 5\.0 s$"):
        within(5, lambda: replayed.exists("/dead"))


def test_more_of_a_file_than_was_recorded_is_as_much_as_there_is() -> None:
    host = recorder()
    assert (host.read("/etc/a", 2), host.read("/etc/a", 4)) == (b"\xffa", b"\xffabc")
    replayed = ReplayingHost(recording(host))
    assert replayed.read("/etc/a", 2) == b"\xffa"
    assert replayed.read("/etc/a", 3) == b"\xffab"
    assert replayed.read("/etc/a") == b"\xffabc"


def test_headers_and_standard_input_are_not_kept() -> None:
    host = recorder()
    host.fetch("http://127.0.0.1/x", 5.0, {"Authorization": "Bearer never"})
    host.run(("cat",), 5.0, "typed in")
    host.run(("cat",), 5.0, "something else")
    assert len(host.calls()) == 3
    assert "never" not in str(host.calls())
    assert "typed in" not in str(host.calls())


def test_a_machine_that_says_too_much_costs_no_more_memory_than_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.llmgw.fleet.plugins.module_utils.capture import recorder as module  # noqa: PLC0415

    monkeypatch.setattr(module, "_MOST_BYTES", 10)
    monkeypatch.setattr(module, "_LARGEST_ANSWER", 6)
    monkeypatch.setattr(module, "_MOST_ANSWERS", 2)
    host = recorder(FakeHost({"/7": b"1234567", "/6": b"123456", "/5": b"12345", "/4": b"1234"}))
    assert [host.read(path) for path in ("/7", "/6", "/5", "/4")] == [b"1234567", b"123456", b"12345", b"1234"]
    assert [answers == (LEFT_OUT,) for answers in host.calls().values()] == [True, False, True, False]
    for _time in range(5):
        assert host.read("/7") == b"1234567"


def test_calls_of_many_threads_are_all_kept() -> None:
    host = recorder(FakeHost({f"/{number}": str(number) for number in range(400)}))

    def look(first: int) -> None:
        for number in range(first, 400, 8):
            host.read(f"/{number}")

    threads = [threading.Thread(target=look, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    replayed = ReplayingHost(recording(host))
    assert [replayed.read(f"/{number}") for number in range(400)] == [str(number).encode() for number in range(400)]


def test_an_extractor_is_not_called_for_a_stored_machine() -> None:
    host = recorder()
    assert host.extract("/etc/a", "magic", magic) == b"\xffabc"

    def never(stream: BinaryIO) -> bytes:
        raise AssertionError(stream)

    assert ReplayingHost(recording(host)).extract("/etc/a", "magic", never) == b"\xffabc"
    assert magic(io.BytesIO(b"12345")) == b"1234"
