# SPDX-License-Identifier: Apache-2.0
"""Which mount a path is on, found without touching what may hang; what a type tells (D11)."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Filesystem
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import storage_mounts, storage_types
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.mountinfo import Mount
from tests.support.fake_host import FakeHost

NETWORK = ["nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "9p", "virtiofs", "ocfs2", "gfs2", "panfs", "vastnfs"]
PARALLEL = ["lustre", "gpfs", "beegfs", "beegfs_nodev", "wekafs", "ceph", "glusterfs", "orangefs", "pvfs2"]
FUSE = ["ceph", "glusterfs", "juicefs", "s3fs", "rclone", "dfuse", "daos", "sshfs"]
SHARED = [*NETWORK, *PARALLEL, *(f"fuse.{name}" for name in FUSE)]
ON_DISK = ["ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "squashfs", "erofs"]
LOCAL = [*ON_DISK, "tmpfs", "ramfs", "overlay"]
TABLE = r"""1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 0:50 / /nfs rw - nfs4 filer:/models rw
3 1 8:2 / /disk rw - xfs /dev/sdb1 rw
4 2 0:51 / /nfs/inner rw - nfs4 filer:/inner rw
"""
LISTED = storage_mounts.mounts(TABLE)


def mount(fstype: str, source: str = "x", *super_options: str) -> Mount:
    return Mount("/m", fstype, source, "/", "0:9", ("rw",), super_options)


def target(path: str, links: dict[str, str] | None = None) -> str | None:
    found = storage_mounts.reached(FakeHost(links=links), LISTED, path)
    return None if found is None else found.target


@pytest.mark.parametrize("fstype", SHARED)
def test_types_that_are_shared(fstype: str) -> None:
    assert storage_types.is_shared(fstype) is True


@pytest.mark.parametrize("fstype", LOCAL)
def test_types_that_are_local(fstype: str) -> None:
    assert storage_types.is_shared(fstype) is False


@pytest.mark.parametrize("fstype", ["autofs", "fuse", "fuse.mergerfs", "fuse.unheard-of", "newfs", ""])
def test_types_that_may_be_either(fstype: str) -> None:
    assert storage_types.is_shared(fstype) is None


def test_a_bucket_without_a_subtype_is_known_by_its_program() -> None:
    assert storage_types.is_shared("fuse", "mountpoint-s3") is True
    assert storage_types.has_size("fuse", "mountpoint-s3") is False


@pytest.mark.parametrize(
    ("lower", "expected"),
    [("/disk/a:/disk/b", False), ("/disk/a:/nfs/b", None), (r"/disk/a\:b", False), ("/none", False)],
)
def test_an_overlay_above_a_share_is_neither(lower: str, expected: bool | None) -> None:
    overlay = mount("overlay", "overlay", f"lowerdir={lower}", "upperdir=/disk/u", "workdir=/nfs/w")
    assert storage_mounts.is_shared((*LISTED, overlay), overlay) is expected


def test_of_mounts_on_one_another_the_last_counts() -> None:
    listed = storage_mounts.mounts(
        "1 1 8:1 / / rw - ext4 a rw\n2 1 8:2 / /m rw - ext4 b rw\n3 1 8:3 / /m rw - xfs c rw\n"
    )
    found = storage_mounts.holding(listed, "/m/x")
    beside = storage_mounts.holding(listed, "/models")
    assert found is not None
    assert beside is not None
    assert (found.source, beside.source) == ("c", "a")


@pytest.mark.parametrize(
    ("path", "links", "expected"),
    [
        ("/disk/a/b", {}, "/disk"),
        ("/srv/models", {}, "/"),
        ("/nfs/inner/x", {}, "/nfs"),
        ("/models", {"/models": "/nfs/a"}, "/nfs"),
        ("/disk/link/x", {"/disk/link": "../srv/./y"}, "/"),
        ("/disk/link/x", {"/disk/link": "../nfs"}, "/nfs"),
        ("/a/x", {"/a": "b", "/b": "/c/", "/c": "/disk"}, "/disk"),
        ("/a", {"/a": "b", "/b": "a"}, "/"),
        ("/", {}, "/"),
        ("/nfsx", {}, "/"),
    ],
)
def test_the_way_to_a_path_ends_at_the_first_share(path: str, links: dict[str, str], expected: str) -> None:
    assert target(path, links) == expected


def test_nothing_on_a_share_is_touched_to_find_it() -> None:
    class Watched(FakeHost):
        def readlink(self, path: str) -> str | None:
            assert not path.startswith("/nfs")
            return super().readlink(path)

    found = storage_mounts.reached(Watched(links={"/models": "/nfs/a/b"}), LISTED, "/models/c")
    assert found is not None
    assert found.target == "/nfs"


@pytest.mark.parametrize(
    ("fstype", "source", "expected"),
    [
        ("nfs4", "filer:/export/", "filer:/export"),
        ("lustre", "10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch/sub/dir", "10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch"),
        ("cifs", "//server/share", "//server/share"),
        ("gpfs", "fs1", "fs1"),
        ("beegfs", "beegfs_nodev", None),
        ("fuse.s3fs", "s3fs", None),
        ("ext4", "/dev/sda1", None),
    ],
)
def test_a_share_is_named_by_its_source_where_that_is_a_name(fstype: str, source: str, expected: str | None) -> None:
    assert storage_types.names_by_source(fstype, source) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (mount("nfs4", "f:/x", "vers=4.2", "proto=rdma"), "rdma"),
        (mount("nfs", "f:/x", "proto=tcp6"), "tcp"),
        (mount("nfs", "f:/x"), None),
        (mount("lustre", "10.0.0.1@o2ib:/x"), "rdma"),
        (mount("lustre", "10.0.0.1@tcp:/x"), "tcp"),
        (mount("xfs", "/dev/sda1"), None),
    ],
)
def test_how_a_share_is_reached_is_told_by_its_mount(found: Mount, expected: str | None) -> None:
    assert storage_mounts.transport(found) == expected


def test_a_mount_belongs_to_the_entry_of_its_filesystem() -> None:
    known = (Filesystem("/"), Filesystem("/nfs"))
    found = [storage_mounts.entry_of(one, LISTED, known) for one in LISTED]
    assert found == [known[0], known[1], None, None]
