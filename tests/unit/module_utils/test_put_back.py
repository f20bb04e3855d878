# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from ansible_collections.llmgw.fleet.plugins.module_utils import unitfile
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import ObservedUnit
from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import FileChange, Step, WantedUnit
from ansible_collections.llmgw.fleet.plugins.module_utils.put_back import previous_of
from ansible_collections.llmgw.fleet.plugins.module_utils.state_files import StateFiles
from tests.support.fake_host import FakeHost
from tests.unit.module_utils.unit_texts import NAME, running, wanted

OLD, LAST_GOOD, NEW = wanted("/bin/old"), wanted("/bin/good"), wanted("/bin/new")


def step(seen: ObservedUnit | None, unit: WantedUnit = NEW, action: str = "restarted") -> Step:
    return Step(NAME, action, unit, seen)


def state(last_good: str | None = None, record: str | None = None, **files: str) -> StateFiles:
    known: dict[str, str | bytes] = {f"/state/last-good/{name}": text for name, text in files.items()}
    if last_good is not None:
        known[f"/state/last-good/{NAME}"] = last_good
    if record is not None:
        known[f"/state/units/{NAME}.json"] = record
    return StateFiles(FakeHost(known), "/state")


def text_of(one: Step, files: StateFiles) -> str | None:
    previous = previous_of(one, files)
    return previous.text if previous else None


def test_what_ran_from_its_file_a_moment_ago_comes_first() -> None:
    assert text_of(step(running(OLD)), state(LAST_GOOD.text)) == OLD.text


def test_a_file_that_nothing_ran_from_comes_after_the_last_good_one() -> None:
    crashed = replace(running(OLD), active_state="failed", running_digest=None)
    other = replace(running(OLD), running_digest=LAST_GOOD.process_digest)
    assert text_of(step(crashed), state(LAST_GOOD.text)) == LAST_GOOD.text
    assert text_of(step(other), state(LAST_GOOD.text)) == LAST_GOOD.text
    assert text_of(step(crashed), state()) == OLD.text


def test_the_version_that_failed_is_not_its_own_remedy() -> None:
    dead = replace(running(NEW), active_state="failed", running_digest=None)
    assert text_of(step(dead, action="started"), state(NEW.text)) is None
    assert text_of(step(dead, action="started"), state(LAST_GOOD.text)) == LAST_GOOD.text


def test_a_process_that_went_on_gives_way_only_to_another_process() -> None:
    words = wanted("/bin/new", comment="other words")
    assert text_of(step(running(words), action="rewritten"), state(words.text)) is None
    assert text_of(step(running(NEW), action="kept"), state(LAST_GOOD.text)) == LAST_GOOD.text


def test_a_text_that_does_not_say_what_it_starts_is_no_remedy() -> None:
    foreign = replace(running(OLD), text="[Service]\nExecStart=/bin/x\n", active_state="failed")
    assert text_of(step(foreign), state()) is None


def test_the_previous_version_is_asked_where_it_listens_and_as_it_was_found_ready() -> None:
    record = f'{{"process_digest": "{OLD.process_digest}", "health_path": "/ready", "expect_model": "old"}}'
    moved = replace(NEW, readiness=replace(NEW.readiness, port=19999, ready_timeout_s=77))
    previous = previous_of(step(running(OLD), moved), state(record=record))
    assert previous is not None
    asked = previous.readiness
    assert (asked.port, asked.health_path, asked.expect_model, asked.ready_timeout_s) == (18000, "/ready", "old", 77)
    assert previous.process_digest == OLD.process_digest
    unknown = previous_of(step(running(OLD), moved), state())
    assert unknown is not None
    assert unknown.readiness.expect_model is None


def test_files_beside_the_previous_version_come_back_with_it() -> None:
    old, new = wanted("/bin/old", env="A=0\n"), wanted("/bin/new", env="A=1\n")
    path = "/state/llmgw-chat.0.0.env"
    ran = Step(NAME, "restarted", new, running(old), (FileChange(path, "A=0\n", "A=1\n"),))
    previous = previous_of(ran, state())
    assert previous is not None
    assert previous.environment_files == {path: "A=0\n"}
    crashed = replace(ran, observed=replace(running(old), active_state="failed", running_digest=None))
    previous = previous_of(crashed, state(old.text, **{"llmgw-chat.0.0.env": "A=9\n"}))
    assert previous is not None
    assert previous.environment_files == {path: "A=9\n"}


def test_a_member_is_put_back_with_its_leader_and_time_for_the_others() -> None:
    led = replace(NEW.readiness, kind="leader", address="10.0.0.9", port=18900, ready_timeout_s=77, start_timeout_s=9)
    header = unitfile.parse(OLD.text)._replace(rank=1, members=2, address="10.0.0.2", port=18010)
    old = replace(OLD, text=unitfile.section(header))
    moved = replace(NEW, readiness=led)
    previous = previous_of(step(running(old), moved), state())
    assert previous is not None
    asked = previous.readiness
    assert (asked.kind, asked.address, asked.port) == ("leader", "10.0.0.9", 18900)
    assert (asked.start_timeout_s, asked.ready_timeout_s) == (18, 154)
    record = f'{{"process_digest": "{OLD.process_digest}", "leader_address": "10.0.0.1", "leader_port": 18000}}'
    previous = previous_of(step(running(old), moved), state(record=record))
    assert previous is not None
    assert (previous.readiness.address, previous.readiness.port) == ("10.0.0.1", 18000)
    plain = previous_of(step(running(old), replace(NEW, readiness=replace(led, kind="unit"))), state())
    assert plain is not None
    assert plain.readiness.kind == "unit"
