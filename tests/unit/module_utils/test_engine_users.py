# SPDX-License-Identifier: Apache-2.0
"""Which versions of an engine something on the node still names."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import engine_users
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
