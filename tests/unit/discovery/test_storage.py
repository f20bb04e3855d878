# SPDX-License-Identifier: Apache-2.0
"""Filesystems: one entry each, however many directories and mounts lead to it; shared by type (D11)."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Filesystem
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import storage
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Listing, Size
from tests.support.fake_host import FakeHost

GB = 10**9
MOUNTS = r"""21 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw,errors=remount-ro
22 21 0:5 / /proc rw - proc proc rw
30 21 259:1 / /data rw,noatime shared:7 master:1 - xfs /dev/nvme0n1 rw
31 21 259:1 /models /srv/models rw,noatime - xfs /dev/nvme0n1 rw
32 21 0:50 / /mnt/shared\040models ro,relatime - nfs4 filer:/export/models rw,vers=4.2,proto=rdma
33 21 0:60 / /mnt/bucket rw - fuse.s3fs s3fs rw
34 21 0:70 / /mnt/odd rw - fuse.something odd rw
35 21 0:51 / /mnt/again rw,relatime - nfs4 filer:/export/models rw,vers=4.2,proto=tcp
"""
SPACE = {
    "/": (1000, 400),
    "/data/a": (5000, 3000),
    "/srv/models": (5000, 3000),
    "/mnt/shared models": (90000, 10),
    "/mnt/again": (90000, 10),
    "/mnt/bucket": (1 << 60, 1 << 60),
    "/mnt/odd": (7, 3),
    "/var/lib/llmgw": (1000, 400),
}


def host(*directories: str, mounts: str = MOUNTS, **more: Any) -> FakeHost:
    files: dict[str, str | bytes] = {"/proc/self/mountinfo": mounts}
    files |= {f"{directory}/file": "" for directory in directories}
    return FakeHost(files, **{"space": SPACE, **more})


def read(machine: FakeHost, *directories: str) -> dict[str, Filesystem]:
    found = storage.read_storage(machine, directories).filesystems
    assert found is not None
    return {entry.mount_point: entry for entry in found}


def findings(machine: FakeHost, *directories: str, state_dir: str | None = None) -> list[tuple[str, str, str | None]]:
    found = storage.read_storage(machine, directories, state_dir).findings
    return [(one.code, one.severity, one.subject) for one in found]


def test_the_root_is_always_told() -> None:
    root = Filesystem(
        "/", "/dev/sda2", "ext4", 1000, 400, shared=False, read_only=False, answers=True, directories=("/",)
    )
    assert read(host()) == {"/": root}


def test_two_directories_on_one_disk_are_one_pool_of_bytes_even_through_a_bind_mount() -> None:
    found = read(host("/data/a", "/srv/models"), "/data/a", "/srv/models")
    assert set(found) == {"/", "/data"}
    assert (found["/data"].total_bytes, found["/data"].directories) == (5000, ("/data/a", "/srv/models"))


def test_one_share_mounted_twice_is_one_pool_of_bytes() -> None:
    found = read(host("/mnt/shared models", "/mnt/again"), "/mnt/shared models", "/mnt/again")
    assert set(found) == {"/", "/mnt/again"}
    assert found["/mnt/again"].directories == ("/mnt/again", "/mnt/shared models")


def test_subvolumes_of_one_filesystem_are_one_pool_of_bytes() -> None:
    mounts = "1 0 0:40 /@ / rw - btrfs /dev/sda2 rw,subvol=/@\n2 1 0:40 /@m /m rw - btrfs /dev/sda2 rw,subvol=/@m\n"
    assert set(read(host("/m", mounts=mounts), "/m")) == {"/"}


def test_what_is_free_in_a_zfs_pool_counts_once_and_what_is_used_adds_up() -> None:
    mounts = """1 0 0:40 / / rw - zfs tank/root rw
2 1 0:41 / /m rw - zfs tank/models rw
3 1 0:42 / /q rw - zfs tank/quota rw
4 1 0:43 / /o rw - zfs other/models rw
"""
    space = {"/": (1100, 1000), "/m": (1300, 1001), "/q": (50, 20), "/o": (1100, 1000)}
    found = read(host("/m", "/q", "/o", mounts=mounts, space=space), "/m", "/q", "/o")
    assert {name: (one.total_bytes, one.free_bytes) for name, one in found.items()} == {
        "/": (1399, 1000),
        "/q": (50, 20),
        "/o": (1100, 1000),
    }
    assert found["/"].directories == ("/", "/m")


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
    assert (entry.transport, entry.remote) == ("rdma", None)


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
    told = {entry.mount_point: (entry.total_bytes, entry.answers) for entry in found.filesystems or ()}
    assert told == {"/": (1000, True), "/data": (5000, True), "/mnt/shared models": (None, False)}


class Dead(FakeHost):
    """A machine whose share never answers, and that counts who tries."""

    tried: tuple[str, ...] = ()
    over = threading.Event()

    def scan(self, path: str, limit: int = 20_000) -> Listing:
        if path.startswith("/mnt"):
            self.tried += (path,)
            self.over.wait(30)
        return super().scan(path, limit)


def test_a_share_that_hangs_is_tried_once_by_whatever_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_ANSWER_S", 0.2)
    files: dict[str, str | bytes] = {"/proc/self/mountinfo": MOUNTS, "/data/a/file": ""}
    machine = Dead(files, links={"/models": "/mnt/again/models"}, space=SPACE)
    begun = time.monotonic()
    found = storage.read_storage(machine, ["/mnt/again/a", "/mnt/again/b", "/models", "/data/a"])
    machine.over.set()
    assert time.monotonic() - begun < 20
    assert machine.tried == ("/mnt/again/a",)
    assert {one.subject for one in found.findings} == {"/mnt/again/a", "/mnt/again/b", "/models"}
    assert found.answering == ("/", "/data/a")


def test_when_time_is_up_the_other_directories_are_not_tried() -> None:
    found = storage.read_storage(host("/data/a"), ["/data/a"], budget_s=0)
    assert [(one.code, one.subject) for one in found.findings] == [("storage-hangs", "/data/a")]
    assert found.answering == ("/",)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("EACCES", "storage-denied"),
        ("EPERM", "storage-denied"),
        ("ESTALE", "storage-fails"),
        ("ENOTCONN", "storage-fails"),
        ("ENOTDIR", "storage-fails"),
    ],
)
def test_a_directory_that_is_there_and_cannot_be_looked_at_is_a_finding(error: str, code: str) -> None:
    machine = host("/data/a", errors={"/data/a": error})
    assert findings(machine, "/data/a") == [(code, "warn", "/data/a")]
    found = storage.read_storage(machine, ["/data/a"])
    assert found.answering == ("/",)
    assert [entry.directories for entry in found.filesystems or ()] == [("/",), ("/data/a",)]


def test_a_disk_answers_when_one_of_its_directories_does() -> None:
    machine = host("/data/a", "/srv/models", errors={"/data/a": "EACCES"})
    entry = read(machine, "/data/a", "/srv/models")["/srv/models"]
    assert (entry.answers, entry.total_bytes, entry.directories) == (True, 5000, ("/data/a", "/srv/models"))


def test_an_automounter_is_asked_first_and_what_it_mounted_counts() -> None:
    before = "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n2 1 0:30 / /auto rw - autofs auto.direct rw,direct\n"

    class Automounting(FakeHost):
        def scan(self, path: str, limit: int = 20_000) -> Listing:
            if path == "/auto":
                self.files["/proc/self/mountinfo"] = f"{before}3 2 0:31 / /auto rw - nfs4 filer:/x rw\n"
            return super().scan(path, limit)

    machine = Automounting({"/proc/self/mountinfo": before, "/auto/file": ""}, space={"/auto": (9, 3)})
    entry = read(machine, "/auto")["/auto"]
    assert (entry.type, entry.shared, entry.total_bytes) == ("nfs4", True, 9)


def test_what_an_automounter_could_not_mount_is_a_finding() -> None:
    mounts = "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n2 1 0:30 / /auto rw - autofs auto.direct rw,fd=5,direct\n"
    assert findings(host(mounts=mounts), "/auto") == [("storage-fails", "warn", "/auto")]
    assert findings(host(mounts=mounts.replace("direct\n", "indirect\n")), "/auto/none") == []


def test_without_a_mount_table_the_filesystems_are_unknown() -> None:
    found = storage.read_storage(FakeHost({"/m/file": ""}), ["/m"])
    assert (found.filesystems, found.answering) == (None, ("/", "/m"))


@pytest.mark.parametrize(
    ("total", "free", "expected"),
    [
        (50 * GB, 2 * GB, "warn"),
        (50 * GB, 4 * GB, "info"),
        (50 * GB, 6 * GB, None),
        (10_000 * GB, 9 * GB, "warn"),
        (10_000 * GB, 90 * GB, "info"),
        (10_000 * GB, 500 * GB, None),
    ],
)
def test_a_disk_with_little_left_is_a_finding(total: int, free: int, expected: str | None) -> None:
    found = findings(host("/data/a", space={"/data/a": (total, free)}), "/data/a")
    assert found == ([] if expected is None else [("storage-nearly-full", expected, "/data")])


def test_a_share_with_little_left_is_mentioned_only_and_what_cannot_be_written_is_not() -> None:
    space = {"/mnt/again": (1000 * GB, GB), "/mnt/shared models": (1000 * GB, GB)}
    assert findings(host("/mnt/again", space=space), "/mnt/again") == [("storage-nearly-full", "info", "/mnt/again")]
    assert findings(host("/mnt/shared models", space=space), "/mnt/shared models") == []


@pytest.mark.parametrize("there", [False, True])
def test_a_state_directory_that_cannot_be_written_is_a_finding(there: bool) -> None:
    mounts = "1 0 8:2 / / ro - ext4 /dev/sda2 ro\n2 1 8:3 / /models ro - ext4 /dev/sda3 ro\n"
    machine = host("/models", *(["/var/lib/llmgw"] if there else []), mounts=mounts)
    assert findings(machine, "/models", state_dir="/var/lib/llmgw") == [("storage-state-read-only", "warn", "/")]
    assert findings(machine, "/models") == []


def test_the_state_directory_is_looked_at_too() -> None:
    found = storage.read_storage(host("/data/a"), [], "/data/a").filesystems or ()
    assert [entry.mount_point for entry in found] == ["/", "/data"]


def test_a_disk_that_the_kernel_made_read_only_is_a_finding() -> None:
    mounts = "1 0 8:2 / / rw - ext4 /dev/sda2 ro,errors=remount-ro\n2 1 7:0 / /i rw - squashfs /dev/loop0 ro\n"
    assert findings(host("/i", mounts=mounts), "/i") == [("storage-turned-read-only", "warn", "/")]


def test_a_disk_whose_only_directory_may_not_be_entered_still_tells_its_space() -> None:
    machine = host("/data/a", errors={"/data/a": "EACCES"}, space={"/data": (5000, 3000)})
    entry = read(machine, "/data/a")["/data"]
    assert (entry.total_bytes, entry.answers) == (5000, None)


def test_a_mount_whose_name_is_no_text_is_told_as_far_as_it_can_be() -> None:
    table = b"1 0 8:2 / / rw - ext4 /dev/sda2 rw\n2 1 8:3 / /caf\xe9 rw - ext4 /dev/sda3 ro\n"
    directory = "/caf\udce9/models"
    machine = FakeHost({"/proc/self/mountinfo": table, f"{directory}/file": ""})
    found = storage.read_storage(machine, [directory])
    assert [entry.mount_point for entry in found.filesystems or ()] == ["/", "/caf\ufffd"]
    assert [(one.code, one.subject) for one in found.findings] == [("storage-turned-read-only", "/caf\ufffd")]


def test_a_directory_whose_names_may_be_read_and_nothing_behind_them_is_not_entered() -> None:
    class Barred(FakeHost):
        def measure(self, directory: str, *names: str) -> tuple[Size, ...]:
            return (
                tuple(Size(None, "EACCES") for _name in names) if directory == "/data/a" else super().measure(directory)
            )

    machine = Barred({"/proc/self/mountinfo": MOUNTS, "/data/a/file": ""}, space=SPACE)
    assert findings(machine, "/data/a") == [("storage-denied", "warn", "/data/a")]
