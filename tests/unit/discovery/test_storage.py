# SPDX-License-Identifier: Apache-2.0
"""Filesystems: one entry each, however many directories and mounts lead to it; shared by type (D11)."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Filesystem
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import storage
from tests.support.fake_host import FakeHost

MOUNTS = r"""21 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro
22 21 0:5 / /proc rw - proc proc rw
30 21 259:1 / /data rw,noatime shared:7 master:1 - xfs /dev/nvme0n1 rw
31 21 259:1 /models /srv/models rw,noatime - xfs /dev/nvme0n1 rw
32 21 0:50 / /mnt/shared\040models ro,relatime - nfs4 filer:/export/models rw,vers=4.2
33 21 0:60 / /mnt/bucket rw - fuse.s3fs s3fs rw
34 21 0:70 / /mnt/odd rw - fuse.something odd rw
"""
SPACE = {
    "/": (1000, 400),
    "/data/a": (5000, 3000),
    "/srv/models": (5000, 3000),
    "/mnt/shared models": (90000, 10),
    "/mnt/bucket": (1 << 60, 1 << 60),
    "/mnt/odd": (7, 3),
    "/var/lib/llmgw": (1000, 400),
}


def host(*directories: str, **more: object) -> FakeHost:
    files: dict[str, str | bytes] = {"/proc/self/mountinfo": MOUNTS}
    files |= {f"{directory}/file": "" for directory in directories}
    return FakeHost(files, space=SPACE, **more)  # type: ignore[arg-type]


def read(machine: FakeHost, *directories: str) -> dict[str, Filesystem]:
    found = storage.read_storage(machine, directories).filesystems
    assert found is not None
    return {entry.mount_point: entry for entry in found}


def test_the_root_is_always_told() -> None:
    assert read(host()) == {
        "/": Filesystem("/", "/dev/sda2", "ext4", 1000, 400, shared=False, read_only=False, directories=("/",))
    }


def test_two_directories_on_one_disk_are_one_pool_of_bytes_even_through_a_bind_mount() -> None:
    found = read(host("/data/a", "/srv/models"), "/data/a", "/srv/models")
    assert set(found) == {"/", "/data"}
    assert (found["/data"].total_bytes, found["/data"].directories) == (5000, ("/data/a", "/srv/models"))


def test_a_directory_on_the_root_belongs_to_it() -> None:
    found = read(host("/var/lib/llmgw"), "/var/lib/llmgw")
    assert found["/"].directories == ("/", "/var/lib/llmgw")


def test_a_missing_directory_is_skipped() -> None:
    found = storage.read_storage(host(), ["/data/none"])
    assert found.answering == ("/",)
    assert found.findings == ()
    assert [entry.mount_point for entry in found.filesystems or ()] == ["/"]


def test_a_network_share_is_shared_and_its_name_is_decoded() -> None:
    entry = read(host("/mnt/shared models"), "/mnt/shared models")["/mnt/shared models"]
    assert (entry.shared, entry.source, entry.read_only, entry.free_bytes) == (True, "filer:/export/models", True, 10)


def test_the_size_of_a_bucket_is_unknown() -> None:
    entry = read(host("/mnt/bucket"), "/mnt/bucket")["/mnt/bucket"]
    assert (entry.shared, entry.total_bytes, entry.free_bytes) == (True, None, None)


def test_a_filesystem_that_says_it_has_no_bytes_has_unknown_ones() -> None:
    machine = host("/data/a")
    machine.space["/data/a"] = (0, 0)
    entry = read(machine, "/data/a")["/data"]
    assert (entry.total_bytes, entry.free_bytes) == (None, None)


def test_a_link_is_followed_to_the_filesystem_that_it_points_to() -> None:
    machine = host("/data/a", links={"/models": "/data/a"})
    assert read(machine, "/models")["/data"].directories == ("/models",)


def test_a_share_that_hangs_is_a_finding_and_costs_no_other() -> None:
    found = storage.read_storage(host("/data/a", hanging=["/mnt/shared models"]), ["/mnt/shared models", "/data/a"])
    assert [(one.code, one.subject) for one in found.findings] == [("storage-hangs", "/mnt/shared models")]
    assert found.answering == ("/", "/data/a")
    spaces = {entry.mount_point: entry.total_bytes for entry in found.filesystems or ()}
    assert spaces == {"/": 1000, "/data": 5000, "/mnt/shared models": None}


def test_without_a_mount_table_the_filesystems_are_unknown() -> None:
    assert storage.read_storage(FakeHost(), []).filesystems is None


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("nfs4", True),
        ("lustre", True),
        ("wekafs", True),
        ("fuse.sshfs", True),
        ("xfs", False),
        ("overlay", False),
        ("autofs", None),
    ],
)
def test_shared_is_judged_by_type_and_unknown_types_are_unknown(kind: str, expected: bool | None) -> None:
    assert storage.is_shared(kind) is expected


def test_of_mounts_on_one_another_the_last_counts() -> None:
    listed = storage.mounts("1 1 8:1 / / rw - ext4 a rw\n2 1 8:2 / /m rw - ext4 b rw\n3 1 8:3 / /m rw - xfs c rw\n")
    found = storage.holding(listed, "/m/x")
    assert found is not None
    assert found.source == "c"
    beside = storage.holding(listed, "/models")
    assert beside is not None
    assert beside.source == "a"
