# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from llmgw.apply.events import Progress
from llmgw.cli.last_word import last_words

ALL: dict[str, list[str]] = {"unplaced": [], "refused": []}


def progress(*done: str, also: tuple[str, ...] = (), **plan: list[str]) -> Progress:
    """`host unit action` each; `also`: what else changed, on host n1."""
    seen = Progress(plan=ALL | plan)
    for one in done:
        host, unit, action = one.split()
        name = f"llmgw-{unit}.service"
        seen.done.setdefault((host, name), set()).add(action)
        seen.changed.add((host, name))
    seen.changed.update(("n1", what) for what in also)
    return seen


def test_replicas_are_counted_in_the_words_of_the_plan() -> None:
    seen = progress(
        "n1 chat.0.0 restarted",
        "n1 chat.1.0 restarted",
        "n2 chat.2.0 created",
        "n1 old.0.0 removed",
        "n1 mend.0.0 started",
        "n1 text.0.0 rewritten",
        also=("routes",),
    )
    assert last_words(seen, check=False) == (
        "Done: 1 created, 2 updated (restarted), 1 rewritten, 1 started again, 1 stopped, routes published."
    )


def test_a_replica_of_several_members_is_one_that_changes_its_place_has_moved_and_one_that_goes_stood_in() -> None:
    many = progress("n1 big.0.0 restarted", "n2 big.0.1 restarted")
    assert last_words(many, check=False) == "Done: 1 updated (restarted)."
    moved = progress("n1 chat.0.0 removed", "n2 chat.0.0 created")
    assert last_words(moved, check=False) == "Done: 1 moved."
    stood_in = progress("n1 chat.3.0 created", "n1 chat.3.0 removed")
    assert last_words(stood_in, check=False) == "Done: 1 stood in meanwhile."


@pytest.mark.parametrize(
    ("also", "said"),
    [
        ((), "Done: nothing changed."),
        (("routes",), "Done: routes published."),
        (("weights of a", "marks"), "Done: weights of 1 model fetched, devices of 1 host quarantined."),
    ],
)
def test_what_else_changed_is_told_too(also: tuple[str, ...], said: str) -> None:
    assert last_words(progress(also=also), check=False) == said


def test_check_mode_promises_and_does_not_say_done() -> None:
    assert last_words(progress(), check=True) == "Nothing would be changed."
    assert last_words(progress("n1 chat.0.0 created"), check=True) == "Would be done: 1 created."


def test_what_was_not_done_is_the_last_word() -> None:
    said = last_words(progress(refused=["chat"], unplaced=["chat/2", "tiny/0"]), check=False)
    assert said == "Done: nothing changed. Not rolled out: chat (see above). Without a place: chat/2, tiny/0."
