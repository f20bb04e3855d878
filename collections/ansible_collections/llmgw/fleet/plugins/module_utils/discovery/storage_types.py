# SPDX-License-Identifier: BSD-2-Clause
"""What the type of a filesystem tells (D11, D12): whether other machines see the same files.

Private to llmgw and pure.
"""

from __future__ import annotations

_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ncpfs", "coda", "davfs", "dvs"}
_CLUSTER = {"lustre", "gpfs", "beegfs", "beegfs_nodev", "fhgfs", "wekafs", "ceph", "glusterfs", "orangefs", "pvfs2"}
_SHARED_DISK = {"ocfs2", "gfs2", "panfs", "vastnfs", "acfs", "cvfs"}
# A directory of the machine's host: shared by the virtual machines of that host.
_OF_THE_HOST = {"9p", "virtiofs"}
_FUSE = {"ceph", "ceph-fuse", "glusterfs", "sshfs", "juicefs", "s3fs", "rclone", "dfuse", "daos", "hf3fs", "quobyte"}
_FUSE_TOO = {"gcsfuse", "goofys", "blobfuse", "blobfuse2", "mountpoint-s3", "seaweedfs", "mfs", "moosefs", "cvmfs2"}
_FUSE_SHARED = frozenset(f"fuse.{name}" for name in _FUSE | _FUSE_TOO)
_SHARED = frozenset(_NETWORK | _CLUSTER | _SHARED_DISK | _OF_THE_HOST | _FUSE_SHARED)
# FUSE programs that give their name as the source and no subtype.
_FUSE_SOURCES = frozenset({"mountpoint-s3", "gcsfuse", "blobfuse2"})
_ON_DISK = {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs", "nilfs2", "fuseblk"}
_FOREIGN = {"vfat", "exfat", "ntfs", "ntfs3", "hfsplus", "iso9660", "udf"}
_IMAGES = {"squashfs", "erofs", "cramfs", "romfs"}
_IN_MEMORY = {"tmpfs", "ramfs", "devtmpfs", "rootfs"}
_LOCAL = frozenset(_ON_DISK | _FOREIGN | _IMAGES | _IN_MEMORY | {"overlay", "aufs"})
# A bucket has no size, so these make one up.
_BUCKETS = ("s3fs", "rclone", "gcsfuse", "goofys", "blobfuse", "blobfuse2", "mountpoint-s3")
_SIZELESS = frozenset(f"fuse.{name}" for name in _BUCKETS)


def is_shared(filesystem_type: str, source: str = "") -> bool | None:
    """Whether other machines see the same files, judged by type; None for types that may be either."""
    if filesystem_type in _SHARED or (filesystem_type == "fuse" and source in _FUSE_SOURCES):
        return True
    return False if filesystem_type in _LOCAL else None


def has_size(filesystem_type: str, source: str = "") -> bool:
    """Whether its totals mean anything."""
    return filesystem_type not in _SIZELESS and not (filesystem_type == "fuse" and source in _FUSE_SOURCES)


def is_image(filesystem_type: str) -> bool:
    """Whether it is made once and never written, so that it is always full."""
    return filesystem_type in _IMAGES or filesystem_type == "iso9660"


def names_by_source(filesystem_type: str, source: str) -> str | None:
    """What tells that two mounts are of one share, where the source says so; None where it does not.

    `beegfs_nodev`, `s3fs` and the like are the same words for every share.
    """
    if is_shared(filesystem_type, source) is not True:
        return None
    if filesystem_type == "lustre":
        # A mounted subdirectory is written behind the filesystem's name.
        server, separator, path = source.partition(":/")
        return f"{server}{separator}{path.split('/')[0]}"
    if ":/" in source or source.startswith("//") or filesystem_type in {"gpfs", "wekafs", "9p", "virtiofs"}:
        return source.rstrip("/")
    return None
