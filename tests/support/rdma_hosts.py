# SPDX-License-Identifier: Apache-2.0
"""Machines with RDMA adapters that do not exist: the files of /sys that their drivers show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils.host import NoAnswer
from tests.support.fake_host import FakeHost

CLASS = "/sys/class/infiniband"
PCI = "/sys/bus/pci/devices"
EMPTY_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
Files = dict[str, str | bytes]
Links = dict[str, str]


class RdmaHost(FakeHost):
    """A machine that gives no answer about the paths in `silent`, as one whose adapter's firmware has died."""

    silent: Sequence[str] = ()

    def read(self, path: str, limit: int = 1 << 22) -> bytes | None:
        if any(path.startswith(prefix) for prefix in self.silent):
            raise NoAnswer(path)
        return super().read(path, limit)


def machine(*adapters: tuple[Files, Links], commands: Mapping[str, str] | None = None) -> RdmaHost:
    files: Files = {}
    links: Links = {}
    for some_files, some_links in adapters:
        files |= some_files
        links |= some_links
    return RdmaHost(files, links=links, commands=dict(commands or {}))


def port_guid(number: int) -> str:
    return f"0xb83fd203{number:08x}"


def infiniband_port(number: int, *, port: int = 1, lid: int = 0, **changed: str) -> Files:
    """Files of a port by their path below the adapter; its GUID is that of `number`."""
    guid = port_guid(number)[2:]
    halves = ":".join(guid[place : place + 4] for place in range(0, 16, 4))
    files = {
        "link_layer": "InfiniBand",
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)",
        "lid": f"0x{lid or 0x20 + number:x}",
        "sm_lid": "0x1",
        "gids/0": f"fe80:0000:0000:0000:{halves}",
        "gids/1": EMPTY_GID,
        "pkeys/0": "0xffff",
        "pkeys/1": "0x0000",
        "counters/link_downed": "0",
        "counters/symbol_error": "0",
    } | {name.replace("__", "/"): text for name, text in changed.items()}
    return {f"ports/{port}/{name}": text + "\n" for name, text in files.items()}


def roce_port(address: str = "", netdev: str = "eth2", *, port: int = 1, **changed: str) -> Files:
    """Files of a RoCE port whose interface has a link-local address and, when given, an IPv4 address."""
    files = {
        "link_layer": "Ethernet",
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "200 Gb/sec (2X NDR)",
        "lid": "0x0",
        "sm_lid": "0x0",
        "pkeys/0": "0xffff",
        "counters/link_downed": "1",
    }
    gids = ["fe80:0000:0000:0000:0a3f:d2ff:fe00:0102"] * 2
    if address:
        one, two, three, four = (int(part) for part in address.split("."))
        gids += [f"0000:0000:0000:0000:0000:ffff:{one:02x}{two:02x}:{three:02x}{four:02x}"] * 2
    for index, gid in enumerate(gids):
        files[f"gids/{index}"] = gid
        files[f"gid_attrs/types/{index}"] = ("IB/RoCE v1", "RoCE v2")[index % 2]
        files[f"gid_attrs/ndevs/{index}"] = netdev
    files["gids/9"] = EMPTY_GID
    files |= {name.replace("__", "/"): text for name, text in changed.items()}
    return {f"ports/{port}/{name}": text + "\n" for name, text in files.items()}


def adapter(
    name: str,
    address: str | None,
    *ports: Files,
    driver: str = "mlx5_core",
    device: str = "0x1021",
    vendor: str = "0x15b3",
    numa: int = 0,
    netdevs: Sequence[str] = (),
    vpd: bytes | None = None,
    physical_function: str | None = None,
    files: Mapping[str, str] | None = None,
) -> tuple[Files, Links]:
    """Files and links of one adapter; `files` are more of its own, by name."""
    own = {
        "node_type": "1: CA",
        "node_guid": "b83f:d203:00aa:0001",
        "hca_type": "MT4129",
        "board_id": "MT_0000000777",
        "fw_ver": "28.40.1000",
    } | dict(files or {})
    found: Files = {f"{CLASS}/{name}/{file}": text + "\n" for file, text in own.items()}
    for port in ports:
        found |= {f"{CLASS}/{name}/{file}": text for file, text in port.items()}
    if address is None:
        return found, {}
    pci = f"{PCI}/{address}"
    found |= {f"{pci}/vendor": f"{vendor}\n", f"{pci}/device": f"{device}\n", f"{pci}/numa_node": f"{numa}\n"}
    for place, netdev in enumerate(netdevs):
        found |= {
            f"{pci}/net/{netdev}/address": "",
            f"/sys/class/net/{netdev}/mtu": "4092\n",
            f"/sys/class/net/{netdev}/dev_port": f"{place}\n",
        }
    if vpd is not None:
        found[f"{pci}/vpd"] = vpd
    links = {f"{CLASS}/{name}/device": f"../../../{address}", f"{pci}/driver": f"../../../../bus/pci/drivers/{driver}"}
    if physical_function is not None:
        links[f"{pci}/physfn"] = f"../{physical_function}"
    return found, links


def vpd(**fields: str) -> bytes:
    """Vital product data with these read-only fields."""
    body = b"".join(key.encode() + bytes([len(text)]) + text.encode() for key, text in fields.items())
    name = b"Adapter with one name"
    return b"\x82" + len(name).to_bytes(2, "little") + name + b"\x90" + len(body).to_bytes(2, "little") + body + b"\x78"


SWITCH_MANAGEMENT = vpd(
    PN="P0001", SN="S0001", VA="MLX:MN=MLNX:CSKU=V2:UUID=V3:PCI=V0:MODL=CX71:SMDL=SW_MNG", RV="\x0f"
)
NETWORK = vpd(PN="P0002", SN="S0002", VA="MLX:MN=MLNX:CSKU=V2:UUID=V3:PCI=V0:MODL=CX75310A", RV="\x0f")


def hgx_h100(commands: Mapping[str, str] | None = None) -> RdmaHost:
    """Eight InfiniBand adapters, numbered with a gap, and one two-function storage adapter with RoCE."""
    rails = [
        adapter(
            f"mlx5_{number if number < 4 else number + 2}",
            f"0000:{0x18 + 8 * number:02x}:00.0",
            infiniband_port(number),
            numa=number // 4,
            netdevs=(f"ibs{number}",),
            vpd=NETWORK,
        )
        for number in range(8)
    ]
    storage = [
        adapter(
            f"mlx5_{4 + number}",
            f"0000:40:00.{number}",
            roce_port(f"10.9.{number}.7", f"enp64s0f{number}"),
            device="0x101d",
            netdevs=(f"enp64s0f{number}",),
            files={"hca_type": "MT4125", "board_id": "MT_0000000555"},
        )
        for number in range(2)
    ]
    return machine(*rails, *storage, commands=commands)


def hgx_b200() -> RdmaHost:
    """Two InfiniBand adapters, and the four functions through which the NVSwitches are managed."""
    rails = [
        adapter(f"mlx5_{number}", f"0000:1{number}:00.0", infiniband_port(number), vpd=NETWORK) for number in range(2)
    ]
    management = [
        adapter(
            f"mlx5_{2 + number}", f"0000:05:00.{number}", infiniband_port(0x40 + number, lid=1), vpd=SWITCH_MANAGEMENT
        )
        for number in range(4)
    ]
    return machine(*rails, *management)


def aws() -> RdmaHost:
    """Two EFAs, one of which says what an InfiniBand port would say."""
    return machine(
        *(
            adapter(
                name,
                f"0000:{number + 1:02x}:00.0",
                {
                    "ports/1/link_layer": f"{link_layer}\n",
                    "ports/1/state": "4: ACTIVE\n",
                    "ports/1/rate": "100 Gb/sec (4X EDR)\n",
                    "ports/1/gids/0": f"fe80:0000:0000:0000:08ff:39ff:fe00:000{number}\n",
                },
                driver="efa",
                vendor="0x1d0f",
                device="0xefa2",
                files={"node_type": "7: <unknown>", "hca_type": "0xefa2", "board_id": ""},
            )
            for number, (name, link_layer) in enumerate([("rdmap1s0", "Unspecified"), ("efa_1", "InfiniBand")])
        )
    )


def bonded() -> RdmaHost:
    """A RoCE adapter whose two functions are one bond with a VLAN, and a virtual function of it."""
    port = roce_port("10.20.0.5", "bond0") | {
        "ports/1/gids/4": "0000:0000:0000:0000:0000:ffff:0a15:0005\n",
        "ports/1/gid_attrs/types/4": "RoCE v2\n",
        "ports/1/gid_attrs/ndevs/4": "bond0.21\n",
    }
    bond = adapter("mlx5_bond_0", "0000:21:00.0", port, device="0xa2dc", netdevs=("enp33s0f0np0", "enp33s0f1np1"))
    bond[0]["/sys/class/net/bond0/mtu"] = "9000\n"
    function = adapter(
        "mlx5_2",
        "0000:21:00.2",
        roce_port("10.20.0.99", "enp33s0f0v0"),
        netdevs=("enp33s0f0v0",),
        physical_function="0000:21:00.0",
    )
    return machine(bond, function)


def two_ports() -> RdmaHost:
    """A ConnectX-3 with one PCI function: port 1 carries InfiniBand, port 2 is not cabled."""
    down = infiniband_port(
        2,
        port=2,
        state="1: DOWN",
        phys_state="2: Polling",
        rate="10 Gb/sec (4X SDR)",
        lid=0xFFFF,
        sm_lid="0x0",
        counters__link_downed="14",
    )
    return machine(
        adapter(
            "mlx4_0",
            "0000:03:00.0",
            infiniband_port(1, rate="56 Gb/sec (4X FDR)"),
            down,
            driver="mlx4_core",
            device="0x1003",
            numa=-1,
            netdevs=("ib0", "ib1"),
            files={"hca_type": "MT4099", "board_id": "MT_1090120019", "fw_ver": "2.42.5000"},
        )
    )
