# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from ansible_collections.llmgw.fleet.plugins.module_utils.fetching import room
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching.room import GB, Room


def test_what_fits_with_something_to_spare_lacks_nothing() -> None:
    assert Room("/srv", has=70 * GB, needs=65 * GB, margin=5 * GB).lacks is None


def test_what_does_not_fit_says_what_there_is_what_is_needed_and_what_is_missing() -> None:
    lacks = Room("/srv", has=69 * GB, needs=65 * GB, margin=5 * GB).lacks
    assert lacks == (
        "/srv has 69.0 GB free and needs 65.0 GB for what is still to fetch and 5.0 GB to spare: 1.0 GB are missing"
    )


def test_a_full_disk_is_enough_when_nothing_is_to_come() -> None:
    assert Room("/srv", has=0, needs=0, margin=5 * GB).lacks is None


def test_the_filesystem_is_the_one_behind_the_links(tmp_path: Path) -> None:
    real = tmp_path / "disk"
    real.mkdir()
    (tmp_path / "models").symlink_to(real)
    assert room.real_directory(str(tmp_path / "models" / "not" / "there" / "yet")) == str(real)


def test_what_is_mounted_there_is_named_and_sizes_that_nobody_told_count_as_nothing() -> None:
    found = room.look("/proc/self/not/there", [5, None, 7], 1)
    assert (found.mount_point, found.needs, found.has) == ("/proc", 12, 0)


def test_a_link_that_leads_nowhere_is_judged_by_what_is_above_its_end(tmp_path: Path) -> None:
    (tmp_path / "models").symlink_to(tmp_path / "gone" / "models")
    assert room.real_directory(str(tmp_path / "models")) == str(tmp_path)
