# SPDX-License-Identifier: BSD-2-Clause
"""How the block device under a filesystem is reached (D11): a disk behind a fabric looks like one in the machine.

Private to llmgw. /sys/class/block leads through partitions, device-mapper, RAID and loop devices to the disks; the path
of a disk in sysfs names what it hangs on. What that does not tell is None.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import storage_mounts

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
    from ansible_collections.llmgw.fleet.plugins.module_utils.readings.mountinfo import Mount

_DEPTH = 8
_NVME = re.compile(r"/(nvme[0-9]+)/nvme[0-9]+(?:c[0-9]+)?n[0-9]+$")
_NVME_SUBSYSTEM = re.compile(r"/(nvme-subsys[0-9]+)/nvme[0-9]+n[0-9]+$")
_NVME_CONTROLLER = re.compile(r"nvme[0-9]+")
_NVME_LOCAL = frozenset({"pcie", "loop", "apple-nvme"})
# NVMe on PCIe to look at, and a volume of the cloud's network behind it.
_NETWORK_VOLUMES = frozenset({"Amazon Elastic Block Store", "nvme_card-pd", "MSFT NVMe Accelerator v1.0"})
_SCSI_HOST = re.compile(r"/(host[0-9]+)/")
_SRP_PORT = re.compile(r"/(port-[0-9]+:[0-9]+)/")
_RAID_DRIVERS = frozenset({"megaraid_sas", "mpt3sas", "mpt2sas", "mpi3mr", "smartpqi", "hpsa", "aacraid", "arcmsr"})


class Device(NamedTuple):
    """`transport` in the words of lsblk; `remote`: whether it is reached over a network."""

    transport: str | None = None
    remote: bool | None = None


UNKNOWN = Device()
# What part of a path in sysfs tells, the first that is there.
_PATHS = (
    (re.compile(r"/rbd[0-9]+$"), Device("rbd", remote=True)),
    (re.compile(r"/nbd[0-9]+$"), Device("nbd", remote=True)),
    (re.compile(r"/session[0-9]+/"), Device("iscsi", remote=True)),
    (re.compile(r"/rport-[0-9]+"), Device("fc", remote=True)),
    (re.compile(r"/end_device-[0-9]+"), Device("sas", remote=False)),
    (re.compile(r"/ata[0-9]+/"), Device("sata", remote=False)),
    (re.compile(r"/usb[0-9]+/"), Device("usb", remote=False)),
    (re.compile(r"/mmcblk[0-9]+$"), Device("mmc", remote=False)),
    (re.compile(r"/pmem[0-9]+s?$"), Device("pmem", remote=False)),
    (re.compile(r"/z?ram[0-9]+$"), Device("ram", remote=False)),
    # Disks of a virtual machine: what is behind them only its host knows.
    (re.compile(r"/virtio[0-9]+/"), Device("virtio")),
    (re.compile(r"/vbd-[0-9]+"), Device("xen")),
    (re.compile(r"/VMBUS:[0-9]+/|/vmbus_"), Device("vmbus")),
)


def read_device(host: Host, listed: Sequence[Mount], mount: Mount, depth: int = _DEPTH) -> Device:
    """The device under a mount; UNKNOWN for filesystems without one. Of several disks all transports are named."""
    if not mount.device.startswith("0:"):
        path = host.realpath(f"/sys/dev/block/{mount.device}")
    elif mount.source.startswith("/dev/"):
        # btrfs has a device number of its own.
        path = _block(host, host.realpath(mount.source).rsplit("/", 1)[-1])
    else:
        return UNKNOWN
    return _device(host, listed, path, depth)


def _device(host: Host, listed: Sequence[Mount], path: str, depth: int) -> Device:
    if depth == 0 or not path.startswith("/sys/devices/"):
        return UNKNOWN
    if host.exists(f"{path}/partition"):
        path = path.rsplit("/", 1)[0]
    below = [_block(host, name) for name in host.list(f"{path}/slaves") or ()]
    if below:
        return _together([_device(host, listed, one, depth - 1) for one in below])
    backing = _line(host, f"{path}/loop/backing_file")
    if backing:
        return _image(host, listed, backing, depth)
    return _disk(host, path)


def _image(host: Host, listed: Sequence[Mount], path: str, depth: int) -> Device:
    """A file that is mounted: as near as the filesystem that it lies on."""
    mount = storage_mounts.holding(listed, path)
    if mount is None:
        return UNKNOWN
    if storage_mounts.is_shared(listed, mount):
        return Device(storage_mounts.transport(mount) or mount.fstype, remote=True)
    return read_device(host, listed, mount, depth - 1)


def _disk(host: Host, path: str) -> Device:
    controllers = [found.group(1) for found in [_NVME.search(path)] if found]
    subsystem = _NVME_SUBSYSTEM.search(path)
    if subsystem is not None:
        members = host.list(f"/sys/class/nvme-subsystem/{subsystem.group(1)}") or ()
        controllers = [name for name in members if _NVME_CONTROLLER.fullmatch(name)]
    if controllers:
        return _together([_nvme(host, controller) for controller in controllers])
    for pattern, device in _PATHS:
        if pattern.search(path):
            return device
    port = _SRP_PORT.search(path)
    if port is not None and host.exists(f"/sys/class/srp_remote_ports/{port.group(1)}"):
        return Device("srp", remote=True)
    scsi = _SCSI_HOST.search(path)
    if scsi is not None and _line(host, f"/sys/class/scsi_host/{scsi.group(1)}/proc_name") in _RAID_DRIVERS:
        return Device("raid", remote=False)
    return UNKNOWN


def _nvme(host: Host, controller: str) -> Device:
    transport = _line(host, f"/sys/class/nvme/{controller}/transport")
    if transport is None:
        return UNKNOWN
    remote = transport not in _NVME_LOCAL or _line(host, f"/sys/class/nvme/{controller}/model") in _NETWORK_VOLUMES
    return Device(transport, remote)


def _together(devices: Sequence[Device]) -> Device:
    """One remote disk makes all of it remote, and one that is unknown leaves it open."""
    transports = sorted({device.transport for device in devices if device.transport is not None})
    remotes = {device.remote for device in devices}
    remote = True if True in remotes else None if None in remotes else False
    return Device("+".join(transports) or None, remote)


def _block(host: Host, name: str) -> str:
    return host.realpath(f"/sys/class/block/{name}")


def _line(host: Host, path: str) -> str | None:
    return (host.read(path, 4096) or b"").decode("utf-8", "replace").strip() or None
