# SPDX-License-Identifier: Apache-2.0
"""Units come, change and go as their digests say, on a real manager (R5)."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from ansible_collections.llmgw.fleet.plugins.module_utils.units_apply import Apply, UnitResult
from tests.systemd.node import Node, digest_of, free_port


def states(results: dict[str, UnitResult]) -> set[str]:
    return {result.state for result in results.values()}


def test_new_units_are_written_enabled_started_and_waited_for(node: Node) -> None:
    unit = node.engine("new", free_port(), "--load-seconds 0.3")
    outcome = node.apply([unit], generation=4)
    assert outcome.actions == {unit.name: "created"}
    assert outcome.results[unit.name].state == "ready"
    seen = node.look()[unit.name]
    assert (seen.active_state, seen.enabled, seen.edited, seen.needs_reload) == ("active", True, False, False)
    assert (seen.running_digest, seen.actual_text_digest) == (unit.process_digest, unit.text_digest)
    assert (seen.generation, seen.replica, seen.port) == (4, "new/0", unit.readiness.port)
    assert node.state.last_good(unit.name) == unit.text
    assert node.state.generation() == 4
    assert outcome.diff == [
        {
            "before_header": f"{node.unit_dir}/{unit.name}",
            "after_header": f"{node.unit_dir}/{unit.name}",
            "before": "",
            "after": unit.text,
        }
    ]


def test_a_second_apply_changes_nothing_and_touches_no_process(node: Node) -> None:
    units = [node.engine("one", free_port()), node.engine("two", free_port())]
    node.apply(units)
    pids = [node.main_pid(unit.name) for unit in units]
    again = node.apply(units, generation=2)
    assert (again.changed, again.diff, set(again.actions.values())) == (False, [], {"kept"})
    assert [node.main_pid(unit.name) for unit in units] == pids
    assert {unit.generation for unit in node.look().values()} == {1}
    assert not any("daemon-reload" in command or "restart" in command for command in again.commands)


def test_one_call_reloads_once_and_starts_all_at_once(node: Node) -> None:
    units = [node.engine(f"many{number}", free_port(), "--load-seconds 1") for number in range(4)]
    outcome = node.apply(units)
    assert states(outcome.results) == {"ready"}
    assert sum("daemon-reload" in command for command in outcome.commands) == 1
    assert sum(" restart " in command for command in outcome.commands) == 1
    assert sum(" enable " in command for command in outcome.commands) == 1


def test_another_command_restarts_the_unit(node: Node) -> None:
    port = free_port()
    first = node.engine("upd", port)
    node.apply([first])
    pid = node.main_pid(first.name)
    second = node.engine("upd", port, "--max-num-seqs 3")
    outcome = node.apply([second], generation=2)
    assert outcome.actions == {first.name: "restarted"}
    assert node.main_pid(first.name) != pid
    assert digest_of(node.main_pid(first.name)) == second.process_digest
    assert node.look()[first.name].generation == 2


def test_another_text_alone_is_written_in_place(node: Node) -> None:
    port = free_port()
    first = node.engine("txt", port)
    node.apply([first])
    pid = node.main_pid(first.name)
    second = node.engine("txt", port, description="better words")
    outcome = node.apply([second], generation=2)
    assert outcome.actions == {first.name: "rewritten"}
    assert node.main_pid(first.name) == pid
    assert node.systemctl("show", "-p", "Description", "--value", first.name) == "better words"
    assert not any("restart" in command for command in outcome.commands)


def test_a_unit_edited_by_hand_is_brought_back(node: Node) -> None:
    unit = node.engine("edit", free_port())
    node.apply([unit])
    path = node.unit_dir / unit.name
    path.write_text(unit.text.replace("Description=test", "Description=mine"))
    assert node.look()[unit.name].edited is True
    outcome = node.apply([unit])
    assert (outcome.changed, outcome.actions) == (True, {unit.name: "rewritten"})
    assert "Description=mine" in outcome.diff[0]["before"]
    assert path.read_text() == unit.text
    assert node.apply([unit]).changed is False


def test_a_drop_in_that_is_a_link_to_nothing_is_named_and_goes(node: Node) -> None:
    unit = node.engine("link", free_port())
    node.apply([unit])
    drop_in = node.unit_dir / f"{unit.name}.d" / "override.conf"
    drop_in.parent.mkdir()
    drop_in.symlink_to("/nonexistent")
    outcome = node.apply([unit])
    assert [(one["before_header"], one["before"]) for one in outcome.diff] == [
        (str(drop_in), "a link to /nonexistent, which is not there\n")
    ]
    assert not drop_in.parent.exists()
    assert node.apply([unit]).changed is False


def test_a_drop_in_of_the_unit_is_an_edit_and_goes(node: Node) -> None:
    unit = node.engine("drop", free_port())
    node.apply([unit])
    drop_in = node.unit_dir / f"{unit.name}.d" / "override.conf"
    drop_in.parent.mkdir()
    drop_in.write_text("[Service]\nNice=5\n")
    node.systemctl("daemon-reload")
    assert node.look()[unit.name].edited is True
    outcome = node.apply([unit])
    assert outcome.actions == {unit.name: "rewritten"}
    assert [(one["before_header"], one["after"]) for one in outcome.diff] == [(str(drop_in), "")]
    assert not drop_in.parent.exists()
    assert node.look()[unit.name].edited is False


def test_a_stopped_unit_is_started(node: Node) -> None:
    unit = node.engine("stop", free_port())
    node.apply([unit])
    node.systemctl("stop", unit.name)
    outcome = node.apply([unit])
    assert (outcome.actions, outcome.diff) == ({unit.name: "started"}, [])
    assert outcome.results[unit.name].state == "ready"


def test_a_disabled_unit_is_enabled_without_touching_its_process(node: Node) -> None:
    unit = node.engine("dis", free_port())
    node.apply([unit])
    pid = node.main_pid(unit.name)
    node.systemctl("disable", unit.name)
    assert node.apply([unit]).actions == {unit.name: "rewritten"}
    assert (node.look()[unit.name].enabled, node.main_pid(unit.name)) == (True, pid)


def test_a_process_that_died_under_the_same_text_is_seen_by_its_digest(node: Node) -> None:
    port = free_port()
    first, second = node.engine("crash", port), node.engine("crash", port, "--max-num-seqs 2")
    node.apply([first])
    (node.unit_dir / first.name).write_text(second.text)
    node.systemctl("daemon-reload")
    seen = node.look()[first.name]
    assert (seen.process_digest, seen.running_digest) == (second.process_digest, first.process_digest)
    assert node.apply([second]).actions == {first.name: "restarted"}


def test_a_running_process_whose_file_was_deleted_gets_it_back(node: Node) -> None:
    unit = node.engine("gone", free_port())
    node.apply([unit])
    pid = node.main_pid(unit.name)
    (node.unit_dir / unit.name).unlink()
    node.systemctl("daemon-reload")
    seen = node.look()[unit.name]
    assert (seen.text, seen.active_state, seen.running_digest) == (None, "active", unit.process_digest)
    assert node.apply([unit]).actions == {unit.name: "rewritten"}
    assert node.main_pid(unit.name) == pid


def test_removing_leaves_nothing_behind(node: Node) -> None:
    kept, gone = node.engine("stays", free_port()), node.engine("goes", free_port())
    node.apply([kept, gone])
    pid = node.main_pid(gone.name)
    outcome = node.apply([], [gone.name], generation=2)
    assert (outcome.actions, outcome.results[gone.name].state) == ({gone.name: "removed"}, "absent")
    assert (outcome.diff[0]["before"], outcome.diff[0]["after"]) == (gone.text, "")
    assert list(node.look()) == [kept.name]
    assert not Path(f"/proc/{pid}").exists()
    left = [path.name for path in (*node.unit_dir.rglob("*goes*"), *node.state_dir.rglob("llmgw-goes*"))]
    assert left == []
    assert node.apply([], [gone.name], generation=2).changed is False


def test_an_extra_unit_without_a_file_can_be_removed(node: Node) -> None:
    unit = node.engine("extra", free_port())
    node.apply([unit])
    (node.unit_dir / unit.name).unlink()
    node.systemctl("daemon-reload")
    assert node.apply([], [unit.name]).actions == {unit.name: "removed"}
    assert node.look() == {}


def test_a_unit_that_ignores_sigterm_is_removed_by_its_own_deadline(node: Node) -> None:
    unit = node.unit("deaf", "/bin/sh -c 'trap \"\" TERM; while :; do sleep 1; done'", stop_s=1)
    node.apply([unit])
    outcome = node.apply([], [unit.name])
    assert outcome.results[unit.name].state == "absent"
    assert 0.9 < outcome.results[unit.name].seconds < 40


def test_a_member_without_readiness_must_stay_active_for_two_seconds(node: Node) -> None:
    unit = node.unit("rank", "/bin/sleep 1000")
    outcome = node.apply([unit])
    assert outcome.results[unit.name].state == "ready"
    assert outcome.results[unit.name].seconds >= 1.0
    seen = node.look()[unit.name]
    assert seen.since is not None
    assert time.time() - seen.since >= 2.0


def test_a_member_that_was_active_all_along_costs_no_waiting(node: Node) -> None:
    unit = node.unit("long", "/bin/sleep 1000")
    node.apply([unit])
    time.sleep(1.5)  # its age is known in whole seconds
    assert node.apply([unit]).results[unit.name].seconds < 1.9


def test_many_changes_in_a_short_time_are_no_crash_loop(node: Node) -> None:
    limit = "[Unit]\nStartLimitIntervalSec=600\nStartLimitBurst=2"
    unit = node.unit("limit", "/bin/sleep 1000", extra=limit)
    node.apply([unit])
    for _ in range(4):
        assert Apply(node.host, node.manager, node.state, 1)._start([unit.name]) is None
        node.wait_for_queue(unit.name)
    assert node.systemctl("show", "-p", "Result", "--value", unit.name) == "success"


def test_environment_files_come_change_and_go_with_their_unit(node: Node) -> None:
    path = str(node.state_dir / "env" / "llmgw-env.0.0.env")
    extra = f"EnvironmentFile={path}"
    first = node.unit("env", "/bin/sleep 1000", extra=extra, environment_files={path: "COLOR=red\n"})
    node.apply([first])
    assert b"COLOR=red" in _environ(node, first.name)
    second = node.unit("env", "/bin/sleep 1000", extra=extra, environment_files={path: "COLOR=blue\n"})
    outcome = node.apply([second])
    assert outcome.actions == {first.name: "restarted"}
    assert b"COLOR=blue" in _environ(node, first.name)
    assert {one["before_header"] for one in outcome.diff} == {path, f"{node.unit_dir}/{first.name}"}
    node.apply([], [first.name])
    assert not Path(path).exists()


def test_a_kept_unit_that_still_loads_is_waited_for(node: Node) -> None:
    unit = node.engine("slow", free_port(), "--load-seconds 4")
    node.apply([replace(unit, readiness=replace(unit.readiness, kind="unit"))])
    node.systemctl("restart", unit.name)
    outcome = node.apply([unit])
    assert outcome.actions == {unit.name: "kept"}
    assert (outcome.changed, outcome.results[unit.name].state) == (False, "ready")
    assert outcome.results[unit.name].seconds > 0.5


def _environ(node: Node, name: str) -> bytes:
    return Path(f"/proc/{node.main_pid(name)}/environ").read_bytes()
