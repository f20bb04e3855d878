# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.llmgw.fleet.plugins.module_utils import observed, unitfile
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import EngineMemory, ObservedUnit
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host, Result
from ansible_collections.llmgw.fleet.plugins.module_utils.state_files import Record
from ansible_collections.llmgw.fleet.plugins.module_utils.systemd import SYSTEM, Manager
from tests.support.fake_host import FakeHost

UNITS = "/etc/systemd/system"
NAME = "llmgw-chat.0.0.service"
RUNNING = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "UnitFileState": "enabled",
    "NeedDaemonReload": "no",
    "MainPID": "77",
    "NRestarts": "1",
    "MemoryCurrent": "1048576",
    "StateChangeTimestamp": "Mon 2026-11-30 02:35:11 UTC",
}


def text(**header: Any) -> str:
    body = "[Service]\nExecStart=/bin/engine\n\n"
    known = unitfile.Header(replica="chat/0", rank=0, members=1, address="10.0.0.1", port=18000, **header)
    digest = unitfile.text_digest(body + unitfile.section(known))
    return body + unitfile.section(known._replace(text_digest=digest))


class Node(FakeHost):
    """A machine with units and what systemd says of them."""

    def __init__(self, files: dict[str, str | bytes], shown: dict[str, dict[str, str]], log: str = "") -> None:
        super().__init__(files)
        self.shown = shown
        self.log = log

    def run(self, argv: Any, timeout_s: float, stdin: str | None = None) -> Result:
        assert timeout_s > 0
        assert stdin is None
        self.ran.append(" ".join(argv))
        if argv[0] == "journalctl":
            return Result(0, self.log, "")
        names = {*argv[argv.index("--") + 1 :], *self.shown} - {"llmgw-*.*.*.service"}
        blocks = []
        for name in sorted(names):
            properties = {"Id": name, **self.shown.get(name, {"LoadState": "not-found", "ActiveState": "inactive"})}
            blocks.append("\n".join(f"{key}={value}" for key, value in properties.items()))
        return Result(0, "\n\n".join(blocks) + "\n", "")


def look(node: Node, probe: observed.Probe | None = None) -> dict[str, ObservedUnit]:
    units = observed.observe_units(node, Manager(node, SYSTEM), "/var/lib/llmgw", probe)
    return {unit.name: unit for unit in units}


def serving(header: unitfile.Header, record: Record) -> bool:
    del header, record
    return True


def loading(header: unitfile.Header, record: Record) -> bool:
    del header, record
    return False


def test_a_running_unit_is_told_from_file_systemd_and_process_in_one_question() -> None:
    files: dict[str, str | bytes] = {
        f"{UNITS}/{NAME}": text(process_digest="sha256:new"),
        f"{UNITS}/sshd.service": "",
        "/proc/77/environ": b"A=b\0LLMGW_PROCESS_DIGEST=sha256:old\0",
        f"/var/lib/llmgw/units/{NAME}.json": '{"generation": 7, "process_digest": "sha256:old"}',
    }
    node = Node(files, {NAME: RUNNING})
    unit = look(node)[NAME]
    assert len(node.ran) == 1
    assert (unit.process_digest, unit.running_digest) == ("sha256:new", "sha256:old")
    assert (unit.edited, unit.enabled, unit.needs_reload) == (False, True, False)
    assert (unit.restarts, unit.memory_bytes, unit.main_pid, unit.since) == (1, 1048576, 77, 1796006111.0)
    assert (unit.generation, unit.replica, unit.port) == (7, "chat/0", 18000)
    assert unit.text == files[f"{UNITS}/{NAME}"]


def test_what_systemd_does_not_tell_is_unknown() -> None:
    node = Node({f"{UNITS}/{NAME}": text()}, {NAME: {**RUNNING, "MainPID": "0", "MemoryCurrent": "[not set]"}})
    unit = look(node)[NAME]
    assert (unit.main_pid, unit.memory_bytes, unit.running_digest, unit.generation, unit.ready) == (None,) * 5
    limit = Node({f"{UNITS}/{NAME}": text()}, {NAME: {**RUNNING, "MemoryCurrent": str(2**64 - 1)}})
    assert look(limit)[NAME].memory_bytes is None


def test_a_unit_without_its_file_that_still_runs_is_seen() -> None:
    node = Node({"/proc/77/environ": b"LLMGW_PROCESS_DIGEST=sha256:old\0"}, {NAME: {**RUNNING, "UnitFileState": ""}})
    unit = look(node)[NAME]
    assert (unit.text, unit.actual_text_digest, unit.edited, unit.enabled) == (None, None, None, None)
    assert (unit.active_state, unit.running_digest) == ("active", "sha256:old")


def test_a_running_unit_without_its_file_is_known_as_it_was_last_ready_and_at_least_by_its_name() -> None:
    running = {NAME: {**RUNNING, "UnitFileState": ""}}
    unit = look(Node({f"/var/lib/llmgw/last-good/{NAME}": text(model="m")}, running))[NAME]
    assert (unit.replica, unit.rank, unit.port, unit.model, unit.text) == ("chat/0", 0, 18000, "m", None)
    unit = look(Node({}, running))[NAME]
    assert (unit.replica, unit.rank, unit.port) == ("chat/0", 0, None)
    failed = {NAME: {"LoadState": "not-found", "ActiveState": "failed"}}
    assert look(Node({f"/var/lib/llmgw/last-good/{NAME}": text()}, failed))[NAME].replica is None


def test_a_unit_without_its_file_that_ended_is_gone_unless_its_failure_remains() -> None:
    assert look(Node({}, {NAME: {"LoadState": "not-found", "ActiveState": "inactive"}})) == {}
    assert list(look(Node({}, {NAME: {"LoadState": "not-found", "ActiveState": "failed"}}))) == [NAME]


def test_an_edit_by_hand_is_seen_in_the_digest() -> None:
    node = Node({f"{UNITS}/{NAME}": text().replace("/bin/engine", "/bin/other")}, {NAME: RUNNING})
    assert look(node)[NAME].edited is True


def test_drop_ins_of_the_unit_are_edits_and_those_for_all_services_are_not() -> None:
    own = f"{UNITS}/{NAME}.d/x.conf"
    everyone = "/usr/lib/systemd/system/service.d/10-timeout.conf"
    files: dict[str, str | bytes] = {f"{UNITS}/{NAME}": text(), own: "[Service]\n", everyone: "[Service]\n"}
    node = Node(files, {NAME: {**RUNNING, "DropInPaths": f"{everyone} {own}"}})
    found = observed.survey(node, Manager(node, SYSTEM), "/var/lib/llmgw")
    assert found.drop_ins == {NAME: (own,)}
    assert found.units[0].edited is True
    del files[own]
    node = Node(files, {NAME: {**RUNNING, "DropInPaths": everyone}})
    assert look(node)[NAME].edited is False


def test_a_drop_in_that_systemd_has_not_read_yet_is_seen_too() -> None:
    own = f"{UNITS}/{NAME}.d/x.conf"
    node = Node({f"{UNITS}/{NAME}": text(), own: "[Service]\n"}, {NAME: RUNNING})
    assert look(node)[NAME].edited is True


def test_a_file_that_is_no_text_is_an_edited_unit_and_its_facts_are_json() -> None:
    node = Node({f"{UNITS}/{NAME}": b"\xff\xfe\n[X-Llmgw]\nReplica=\xff\n"}, {NAME: RUNNING})
    unit = look(node)[NAME]
    assert unit.edited is True
    assert unit.text is not None
    assert unit.replica is not None
    (unit.text + unit.replica).encode("utf-8")


def test_readiness_is_asked_only_of_an_active_unit_with_a_port() -> None:
    asked: list[tuple[int | None, str | None]] = []

    def probe(header: unitfile.Header, record: Record) -> bool:
        asked.append((header.port, record.expect_model))
        return True

    files: dict[str, str | bytes] = {
        f"{UNITS}/{NAME}": text(),
        f"/var/lib/llmgw/units/{NAME}.json": '{"expect_model": "chat"}',
        f"{UNITS}/llmgw-chat.1.0.service": text(),
    }
    dead = {**RUNNING, "ActiveState": "failed"}
    units = look(Node(files, {NAME: RUNNING, "llmgw-chat.1.0.service": dead}), probe)
    assert asked == [(18000, "chat")]
    assert [unit.ready for unit in units.values()] == [True, False]


def test_a_ready_unit_is_told_without_its_log() -> None:
    files: dict[str, str | bytes] = {
        f"{UNITS}/{NAME}": text(engine="vllm", process_digest="sha256:p"),
        "/proc/77/environ": b"LLMGW_PROCESS_DIGEST=sha256:p\0",
        f"/var/lib/llmgw/units/{NAME}.json": (
            '{"process_digest": "sha256:p", "ready_at": 1796006150.5, "memory": {"weights_mib": 15350}}'
        ),
    }
    node = Node(files, {NAME: RUNNING}, "Loading safetensors checkpoint shards: 50% Completed\n")
    unit = look(node, serving)[NAME]
    assert (unit.state, unit.state_since, unit.deadline, unit.reason) == ("ready", 1796006150.5, None, None)
    assert unit.memory_report == EngineMemory(weights_mib=15350)
    assert not any("journalctl" in command for command in node.ran)


def test_a_unit_that_loads_is_told_with_its_progress_and_deadline() -> None:
    unit_text = text(engine="vllm", start_timeout_s=60, ready_timeout_s=600_000_000)
    log = "Loading safetensors checkpoint shards: 50% Completed\n"
    node = Node({f"{UNITS}/{NAME}": unit_text}, {NAME: RUNNING}, log)
    unit = look(node, loading)[NAME]
    assert (unit.state, unit.state_since, unit.reason) == ("loading", 1796006111.0, "loading weights, 50 %")
    assert (unit.deadline, unit.progress) == (1796006111.0 + 600_000_000, 0.325)
    assert sum("journalctl" in command for command in node.ran) == 1


def test_a_follower_is_judged_by_its_unit_and_not_asked() -> None:
    name = "llmgw-chat.0.1.service"
    node = Node({f"{UNITS}/{name}": text().replace("Rank=0", "Rank=1")}, {name: RUNNING})
    unit = look(node, loading)[name]
    assert (unit.ready, unit.state) == (None, "ready")


def test_a_report_of_another_version_of_the_unit_is_not_its_own() -> None:
    record = '{"process_digest": "sha256:old", "memory": {"weights_mib": 15350}}'
    files = {f"{UNITS}/{NAME}": text(process_digest="sha256:p"), f"/var/lib/llmgw/units/{NAME}.json": record}
    assert look(Node(dict(files), {NAME: RUNNING}))[NAME].memory_report is None


def test_a_number_that_nobody_can_mean_is_unknown_and_breaks_nothing() -> None:
    unit = "[X-Llmgw]\nReplica=chat/0\nPort=" + "9" * 5000 + "\n"
    seen = look(Node({f"{UNITS}/{NAME}": unit, "/var/lib/llmgw/generation": "9" * 5000}, {NAME: RUNNING}))[NAME]
    assert (seen.replica, seen.port) == ("chat/0", None)


def test_a_unit_with_thousands_of_adapters_is_told_with_its_text() -> None:
    long = text() + "# " + "x" * 400_000 + "\n"
    assert look(Node({f"{UNITS}/{NAME}": long}, {NAME: RUNNING}))[NAME].text == long


def test_a_unit_file_that_somebody_blew_up_costs_its_text_and_not_its_digest() -> None:
    files: dict[str, str | bytes] = {f"{UNITS}/{NAME}": text() + "# " + "x" * 600_000 + "\n"}
    unit = look(Node(files, {NAME: RUNNING}))[NAME]
    assert unit.text is None
    assert unit.edited is True
    assert unit.actual_text_digest not in {None, unit.text_digest}


def test_a_link_to_nothing_beside_a_unit_is_told_by_its_target(tmp_path: Path) -> None:
    (tmp_path / "gone.conf").symlink_to("/nonexistent")
    (tmp_path / "there.conf").write_text("[Service]\n")
    names = ("gone.conf", "there.conf", "none.conf")
    found = observed.texts(Host(), [str(tmp_path / name) for name in names])
    assert list(found.values()) == ["a link to /nonexistent, which is not there\n", "[Service]\n", None]
