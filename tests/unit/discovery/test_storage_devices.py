# SPDX-License-Identifier: Apache-2.0
"""Disks that look local, and how they are reached (D11)."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import storage_devices, storage_mounts
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.storage_devices import Device
from tests.support.fake_host import FakeHost

PCI = "/sys/devices/pci0000:00/0000:00:01.0"
VIRTUAL = "/sys/devices/virtual"
TABLE = """1 0 8:1 / / rw - xfs /dev/sda1 rw
2 1 0:50 / /nfs rw - nfs4 filer:/models rw,proto=rdma
"""


def device(path: str, *, source: str = "/dev/x", number: str = "8:1", **more: str) -> Device:
    """The device of a filesystem whose block device is at `path` in sysfs; `more` are further files of the machine."""
    return on(FakeHost({f"{path}/size": "1", **more}, links={f"/sys/dev/block/{number}": path}), source, number)


def on(host: FakeHost, source: str = "/dev/x", number: str = "8:1") -> Device:
    listed = storage_mounts.mounts(f"{TABLE}3 1 {number} / /m rw - xfs {source} rw\n")
    return storage_devices.read_device(host, listed, listed[-1])


def nvme(controller: str, transport: str, model: str = "Disk") -> dict[str, str]:
    folder = f"/sys/class/nvme/{controller}"
    return {f"{folder}/transport": f"{transport}\n", f"{folder}/model": f"{model}   \n"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"{PCI}/ata1/host0/target0:0:0/0:0:0:0/block/sda", Device("sata", remote=False)),
        (f"{PCI}/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0/block/sda", Device("sas", remote=False)),
        (f"{PCI}/usb1/1-1/1-1:1.0/host6/target6:0:0/6:0:0:0/block/sda", Device("usb", remote=False)),
        ("/sys/devices/platform/host3/session1/target3:0:0/3:0:0:1/block/sda", Device("iscsi", remote=True)),
        (f"{PCI}/host4/rport-4:0-1/target4:0:0/4:0:0:1/block/sda", Device("fc", remote=True)),
        ("/sys/devices/rbd/0/block/rbd0", Device("rbd", remote=True)),
        (f"{VIRTUAL}/block/nbd0", Device("nbd", remote=True)),
        (f"{VIRTUAL}/block/zram0", Device("ram", remote=False)),
        (f"{PCI}/virtio3/block/vda", Device("virtio")),
        (f"{PCI}/host0/target0:0:0/0:0:0:0/block/sda", Device()),
    ],
)
def test_the_path_of_a_disk_tells_what_it_hangs_on(path: str, expected: Device) -> None:
    assert device(path) == expected


@pytest.mark.parametrize(
    ("transport", "remote"), [("pcie", False), ("rdma", True), ("tcp", True), ("fc", True), ("loop", False)]
)
def test_an_nvme_disk_is_as_far_as_its_controller_s_transport(transport: str, remote: bool) -> None:
    assert device(f"{PCI}/nvme/nvme0/nvme0n1", **nvme("nvme0", transport)) == Device(transport, remote)
    behind = f"{VIRTUAL}/nvme-fabrics/ctl/nvme0/nvme0n1"
    assert device(behind, **nvme("nvme0", transport)) == Device(transport, remote)


def test_an_nvme_disk_with_several_paths_has_those_of_its_subsystem() -> None:
    path = f"{VIRTUAL}/nvme-subsystem/nvme-subsys4/nvme4n1"
    members = {f"/sys/class/nvme-subsystem/nvme-subsys4/{name}": "" for name in ("nvme4", "nvme5", "nvme4n1", "model")}
    assert device(path, **members, **nvme("nvme4", "rdma"), **nvme("nvme5", "tcp")) == Device("rdma+tcp", remote=True)


def test_a_volume_of_a_cloud_s_network_is_remote_though_it_is_on_pcie() -> None:
    found = device(f"{PCI}/nvme/nvme0/nvme0n1", **nvme("nvme0", "pcie", "Amazon Elastic Block Store"))
    assert found == Device("pcie", remote=True)


def test_an_nvme_controller_that_says_nothing_is_unknown() -> None:
    assert device(f"{PCI}/nvme/nvme0/nvme0n1") == Device()


def test_a_partition_is_its_disk() -> None:
    disk = f"{PCI}/ata1/host0/target0:0:0/0:0:0:0/block/sda"
    assert device(f"{disk}/sda1", **{f"{disk}/sda1/partition": "1"}) == Device("sata", remote=False)


def test_a_port_is_srp_where_the_class_says_so() -> None:
    path = f"{PCI}/host5/port-5:1/target5:0:0/5:0:0:1/block/sda"
    assert device(path) == Device()
    assert device(path, **{"/sys/class/srp_remote_ports/port-5:1/roles": ""}) == Device("srp", remote=True)


def test_the_disks_of_a_raid_controller_are_local() -> None:
    path = f"{PCI}/host0/target0:2:0/0:2:0:0/block/sda"
    driver = {"/sys/class/scsi_host/host0/proc_name": "megaraid_sas\n"}
    assert device(path, **driver) == Device("raid", remote=False)


def stacked(*transports: str) -> FakeHost:
    """A logical volume on a RAID of NVMe disks with these transports."""
    volume, raid = f"{VIRTUAL}/block/dm-0", f"{VIRTUAL}/block/md0"
    files = {f"{volume}/slaves/md0/x": ""}
    links = {"/sys/dev/block/8:1": volume, "/sys/class/block/md0": raid}
    for number, transport in enumerate(transports):
        files |= {f"{raid}/slaves/nvme{number}n1/x": "", **nvme(f"nvme{number}", transport)}
        links[f"/sys/class/block/nvme{number}n1"] = f"{PCI}/nvme/nvme{number}/nvme{number}n1"
    return FakeHost(files, links=links)


def test_a_volume_is_as_far_as_the_disks_below_it() -> None:
    assert on(stacked("pcie", "pcie")) == Device("pcie", remote=False)
    assert on(stacked("pcie", "tcp")) == Device("pcie+tcp", remote=True)


def test_a_volume_on_itself_is_unknown() -> None:
    path = f"{VIRTUAL}/block/dm-0"
    links = {"/sys/dev/block/8:1": path, "/sys/class/block/dm-0": path}
    assert on(FakeHost({f"{path}/slaves/dm-0/x": ""}, links=links)) == Device()


def test_an_image_is_as_far_as_the_filesystem_that_it_lies_on() -> None:
    path = f"{VIRTUAL}/block/loop0"
    assert device(path, **{f"{path}/loop/backing_file": "/nfs/image\n"}) == Device("rdma", remote=True)
    files = {f"{path}/loop/backing_file": "/images/image\n"}
    disk = f"{PCI}/ata1/host0/target0:0:0/0:0:0:0/block/sda"
    host = FakeHost(files, links={"/sys/dev/block/7:0": path, "/sys/dev/block/8:1": disk})
    assert on(host, number="7:0") == Device("sata", remote=False)


def test_a_filesystem_with_a_number_of_its_own_is_found_by_its_source() -> None:
    disk = f"{PCI}/ata1/host0/target0:0:0/0:0:0:0/block/sda"
    links = {"/dev/mapper/models": "../dm-3", "/sys/class/block/dm-3": disk}
    assert on(FakeHost(links=links), "/dev/mapper/models", "0:40") == Device("sata", remote=False)


@pytest.mark.parametrize(("source", "number"), [("tank/models", "0:40"), ("tmpfs", "0:41"), ("/dev/x", "8:9")])
def test_what_has_no_block_device_here_is_unknown(source: str, number: str) -> None:
    assert on(FakeHost(), source, number) == Device()
