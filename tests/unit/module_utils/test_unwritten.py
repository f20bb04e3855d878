# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import unwritten
from tests.support.fake_host import FakeHost


def error(number: int, path: str | None) -> OSError:
    return OSError(number, os.strerror(number), path) if path else OSError(number, os.strerror(number))


def test_a_full_disk_is_told_with_how_full_it_is_and_where_to_look(tmp_path: Path) -> None:
    host = FakeHost(space={str(tmp_path): (50 << 20, 3 << 20)})
    path = f"{tmp_path}/units/llmgw-chat.0.0.service"
    full = error(errno.ENOSPC, path)
    assert unwritten.why(host, full) == (
        f"{path} cannot be written: the disk is full (3 of 50 MiB are free in {tmp_path})"
    )
    assert f"`df -h {tmp_path}` and `df -i {tmp_path}`" in unwritten.remedy(full)


@pytest.mark.parametrize(
    ("number", "path", "said"),
    [
        (errno.ENOSPC, "/nowhere/x", "/nowhere/x cannot be written: the disk is full"),
        (errno.ENOSPC, None, "a file cannot be written: the disk is full"),
        (errno.EDQUOT, "/nowhere/x", "/nowhere/x cannot be written: the quota on the disk is full"),
        (errno.EROFS, "/nowhere/x", "/nowhere/x cannot be written: Read-only file system"),
        (errno.EACCES, "/nowhere/x", "/nowhere/x: Permission denied"),
    ],
)
def test_what_is_not_known_is_left_out(number: int, path: str | None, said: str) -> None:
    assert unwritten.why(FakeHost(), error(number, path)) == said


def test_only_a_lack_of_space_is_mended_with_space() -> None:
    assert unwritten.remedy(error(errno.EDQUOT, "/nowhere/x")).startswith("Free space on this host (`df -h /`")
    assert unwritten.remedy(error(errno.EROFS, "/nowhere/x")) == "Mend that on this host, then apply again."
