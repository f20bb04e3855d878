# SPDX-License-Identifier: Apache-2.0
"""Lines of mountinfo, with whatever names and options there may be in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import mountinfo
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.mountinfo import Mount

LINE = "31 21 259:1 /models /srv/models rw,noatime shared:7 master:1 - xfs /dev/nvme0n1 rw,attr2"


def only(text: str) -> Mount:
    (mount,) = mountinfo.read(text).mounts
    return mount


def test_a_line_is_read_with_all_that_it_says() -> None:
    assert only(LINE) == Mount(
        "/srv/models", "xfs", "/dev/nvme0n1", "/models", "259:1", ("rw", "noatime"), ("rw", "attr2")
    )


@pytest.mark.parametrize("optional", ["", "shared:1 ", "shared:1 master:2 propagate_from:3 unbindable "])
def test_optional_fields_come_and_go(optional: str) -> None:
    assert only(f"1 2 8:1 / / rw {optional}- ext4 /dev/sda1 rw").source == "/dev/sda1"


def test_escapes_are_decoded_and_nothing_else_that_looks_like_one() -> None:
    mount = only(r"1 2 0:5 /a\040b /m\011t\134040\012\043x rw - fuse.x\040y host:/a\040b rw")
    assert (mount.root, mount.target) == ("/a b", "/m\tt\\040\n#x")
    assert (mount.fstype, mount.source) == ("fuse.x y", "host:/a b")


def test_a_source_may_be_empty() -> None:
    mount = only("1 2 0:5 / /t rw - tmpfs  rw,size=4k")
    assert (mount.source, mount.super_options) == ("", ("rw", "size=4k"))


def test_names_may_hold_characters_that_are_blanks_elsewhere() -> None:
    assert only("1 2 0:5 / /m\u00a0\u2028\x0b rw - nfs filer:/\x85 rw").target == "/m\u00a0\u2028\x0b"


@pytest.mark.parametrize(("options", "expected"), [("rw", False), ("ro", True), ("rw,errors=remount-ro", False)])
def test_read_only_is_an_option_of_the_mount_or_of_the_filesystem(options: str, expected: bool) -> None:
    assert only(f"1 2 8:1 / / {options} - ext4 /dev/sda1 rw").read_only is expected
    assert only(f"1 2 8:1 / / rw - ext4 /dev/sda1 {options}").read_only is expected


def test_a_line_that_is_cut_off_is_counted_and_not_read() -> None:
    table = mountinfo.read(f"{LINE}\n\n1 2 8:1 / /x rw - e")
    assert (table.total_lines, len(table.mounts)) == (2, 1)


@pytest.mark.parametrize("text", ["", "\n", "/dev/sda1 / ext4 rw,relatime 0 0\n", "1 2 three / / rw - ext4 a rw"])
def test_another_text_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        mountinfo.read(text)


@given(st.text())
def test_no_text_raises_anything_else(text: str) -> None:
    for tried in (text, f"{LINE}\n{text}", LINE.replace("shared:7", text)):
        try:
            mountinfo.read(tried)
        except Unreadable:
            continue
