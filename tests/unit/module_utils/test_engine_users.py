# SPDX-License-Identifier: Apache-2.0
"""Which versions of an engine something on the node still names."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import engine_users
from llmgw.units import quoting
from tests.support.fake_host import FakeHost

ROOT = "/opt/llmgw/engines/vllm"
OLD, NEW, LOCKED = f"{ROOT}/0.32.0", f"{ROOT}/0.33.0", f"{ROOT}/0.32.0-abcd1234"
UNITS, LAST_GOOD = "/etc/systemd/system", "/var/lib/llmgw/last-good"


def used(files: dict[str, str | bytes], links: dict[str, str] | None = None) -> list[str]:
    return engine_users.used(FakeHost(files, links=links), (OLD, NEW, LOCKED), (UNITS, LAST_GOOD))


@pytest.mark.parametrize(
    "path",
    [
        f"{UNITS}/llmgw-chat.0.0.service",
        f"{UNITS}/somebody-elses.service",
        f"{UNITS}/llmgw-chat.0.0.service.d/override.conf",
        f"{LAST_GOOD}/llmgw-chat.0.0.service",
    ],
)
def test_a_unit_a_drop_in_and_what_would_be_put_back_use_what_they_name(path: str) -> None:
    assert used({path: f"[Service]\nExecStart={OLD}/bin/vllm serve x\n"}) == [OLD]


def test_a_process_uses_what_its_command_line_names() -> None:
    assert used({"/proc/77/cmdline": f"{NEW}/bin/python\0{NEW}/bin/vllm\0serve\0".encode()}) == [NEW]


def test_a_version_is_not_taken_for_another_whose_name_begins_alike() -> None:
    assert used({"/proc/77/cmdline": f"{LOCKED}/bin/python\0".encode()}) == [LOCKED]
    assert used({f"{UNITS}/a.service": f"Environment=HOME={OLD}\n"}) == [OLD]


def test_what_is_no_unit_uses_nothing() -> None:
    assert used({f"{UNITS}/notes.txt": f"{OLD}/bin/vllm", "/proc/version": OLD}) == []


def test_a_path_behind_a_link_counts_as_well() -> None:
    unit = f"{UNITS}/llmgw-chat.0.0.service"
    files: dict[str, str | bytes] = {unit: "ExecStart=/data/llmgw/engines/vllm/0.32.0/bin/vllm serve x"}
    assert used(files, {"/opt/llmgw": "/data/llmgw"}) == [OLD]


def test_a_process_uses_the_version_that_its_program_lies_in_however_it_was_started() -> None:
    files: dict[str, str | bytes] = {"/proc/77/cmdline": b"./llama-server\0--port\0"}
    assert used(files, {"/proc/77/exe": f"{NEW}/bin/llama-server"}) == [NEW]


def test_while_a_process_runs_by_the_link_no_version_is_known_to_be_unused() -> None:
    assert used({"/proc/77/cmdline": f"{ROOT}/current/bin/python\0-I\0".encode()}) == [OLD, LOCKED, NEW]
    assert used({"/proc/77/cmdline": b"/opt/llmgw/engines/sglang/current/bin/python\0"}) == []
    assert used({"/proc/77/cmdline": f"ls\0{ROOT}/currently/x\0".encode()}) == []
    behind = {"/proc/77/cmdline": b"/data/llmgw/engines/vllm/current/bin/python\0"}
    assert used(dict(behind), {"/opt/llmgw": "/data/llmgw"}) == [OLD, LOCKED, NEW]


@pytest.mark.parametrize("prefix", ["/opt/100%", "/opt/%h", "/opt/a$b", "/home/ops/llmgw"])
def test_a_folder_is_found_as_units_write_it(prefix: str) -> None:
    folder = f"{prefix}/engines/vllm/1.0"
    written = quoting.program(f"{folder}/bin/vllm"), quoting.word(f"{folder}/bin/vllm"), f"{folder}/x"
    by_home = folder.replace("%", "%%").replace("/home/ops", "%h")
    for text in (*written, by_home):
        host = FakeHost({f"{UNITS}/a.service": f"ExecStart={text}\n"})
        assert engine_users.used(host, [folder], (UNITS,)) == [folder]


def test_a_folder_on_a_share_may_be_used_by_others() -> None:
    mounts = {
        "/": "22 1 8:1 / / rw - ext4 /dev/sda1 rw",
        "/opt": "23 22 0:50 / /opt rw - nfs4 filer:/opt rw",
        "/srv": "24 22 0:51 / /srv rw - virtiofs srv rw",
    }
    host = FakeHost({"/proc/self/mountinfo": "\n".join(mounts.values()) + "\n"})
    shared = {path: engine_users.others_may_use(host, path) for path in (ROOT, "/data/llmgw/engines", "/srv/llmgw")}
    assert shared == {ROOT: True, "/data/llmgw/engines": False, "/srv/llmgw": False}
    assert not engine_users.others_may_use(FakeHost(), ROOT)
