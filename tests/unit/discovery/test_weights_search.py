# SPDX-License-Identifier: Apache-2.0
"""A search that ends whatever its calls do (D12)."""

from __future__ import annotations

import threading

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_folder import Sighting
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import (
    Bounds,
    Found,
    Job,
    Outcome,
    Reach,
    Search,
)
from tests.support.fake_host import FakeHost

PATIENT, HASTY = Bounds(30, answer_s=30), Bounds(30, answer_s=0.1)


def jobs(*paths: str) -> list[Job]:
    return [Job("directory", path.split("/")[1], path) for path in paths]


def seen(path: str) -> tuple[Sighting, ...]:
    return (Sighting(Weights(path, path)),)


def paths(outcome: Outcome) -> list[str]:
    return [one.weights.path for one in outcome.seen]


class Slow(FakeHost):
    """A machine that answers for `/slow` once it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.over = threading.Event()
        self.answered = threading.Event()
        self.asked: list[str] = []

    def realpath(self, path: str) -> str:
        self.asked.append(path)
        if path == "/slow":
            self.over.wait(20)
            self.answered.set()
        return path


def test_every_job_and_what_comes_of_it_is_looked_at_once_in_turn() -> None:
    looked = []

    def visit(_reach: Reach, job: Job) -> Found:
        looked.append(job.path)
        further = jobs("/a/1", "/a/2", "/a/1", "/a") if job.path == "/a" else ()
        return Found(seen(job.path), tuple(further))

    outcome = Search(FakeHost(), PATIENT, visit, str).run(jobs("/a", "/b", "/b/3"))
    assert looked == ["/a", "/b", "/a/1", "/b/3", "/a/2"]
    assert paths(outcome) == looked


def test_what_a_call_gives_after_it_was_given_up_is_not_taken() -> None:
    host = Slow()

    def visit(reach: Reach, job: Job) -> Found:
        if job.path == "/b":
            host.over.set()
            host.answered.wait(20)
            threading.Event().wait(0.1)
        if job.path == "/slow":
            reach.realpath("/slow")
            reach.realpath("/after")
        return Found(seen(job.path))

    outcome = Search(host, HASTY, visit, str).run(jobs("/slow", "/b", "/c"))
    assert paths(outcome) == ["/b", "/c"]
    assert host.asked == ["/slow"]
    assert outcome.hanging == ["/slow"]
    assert outcome.unfinished == set()


def test_a_thread_that_was_given_up_takes_no_further_work() -> None:
    host = Slow()

    def visit(reach: Reach, job: Job) -> Found:
        if job.path == "/slow":
            reach.realpath("/slow")
            return Found(seen("/slow"), tuple(jobs("/slow/1")))
        host.over.set()
        host.answered.wait(20)
        threading.Event().wait(0.1)
        return Found(seen(job.path))

    outcome = Search(host, HASTY, visit, str).run(jobs("/slow", "/b", "/c"))
    assert paths(outcome) == ["/b", "/c"]


def test_a_directory_that_is_left_in_the_middle_for_want_of_time_is_unfinished() -> None:
    host = Slow()

    def visit(reach: Reach, job: Job) -> Found:
        reach.realpath("/slow")
        return Found(seen(job.path))

    outcome = Search(host, Bounds(0.2, answer_s=20), visit, str).run(jobs("/a"))
    host.over.set()
    assert (paths(outcome), outcome.unfinished, outcome.hanging) == ([], {"a"}, [])


def test_a_directory_that_is_left_in_the_middle_for_want_of_calls_is_unfinished() -> None:
    def visit(reach: Reach, job: Job) -> Found:
        for name in "xyz" if job.path == "/b" else "x":
            reach.measure(job.path, [name])
        return Found(seen(job.path))

    outcome = Search(FakeHost(), Bounds(30, calls=3), visit, str).run(jobs("/a", "/b"))
    assert (paths(outcome), outcome.unfinished) == (["/a"], {"b"})


def test_no_name_is_asked_for_without_a_call() -> None:
    def visit(reach: Reach, job: Job) -> Found:
        before = reach.left
        assert reach.measure(job.path, []) == {}
        assert reach.left == before
        return Found()

    assert Search(FakeHost(), PATIENT, visit, str).run(jobs("/a")).failed == []
