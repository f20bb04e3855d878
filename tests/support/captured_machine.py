# SPDX-License-Identifier: Apache-2.0
"""A node with something of everything that discovery reads, and with a name for each thing that may identify it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.llmgw.fleet.plugins.module_utils import unitfile
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.node import Options
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Response, Result
from tests.support import rdma_hosts, smi_texts
from tests.support.fake_host import FakeHost

UNIT = "llmgw-chat.0.0.service"
STATE = "/var/lib/llmgw"
BUNDLE = f"{STATE}/bundle.json"
TOKEN_FILE = "/etc/llmgw/admin-token"
_TOPOLOGY = """\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tPIX\t0-31\t0\t\tN/A
NIC0\tPIX\t X \t\t\t\t

NIC Legend:

  NIC0: mlx5_0
"""
ADMIN = "http://127.0.0.1:8081"


@dataclass(frozen=True)
class Identity:
    """What tells this machine from others."""

    host: str = "gpu-rack7-n03"
    domain: str = "dc1.example.org"
    peer: str = "gpu-rack7-n04"
    user: str = "alice"
    serial: str = "1654923001877"
    uuid: str = "GPU-5c1f6a0e-91aa-4f3e-b7a1-0d5a8e6f1b2c"
    cluster: str = "9e1b0c7d-2222-4c3d-8e9f-a0b1c2d3e4f5"
    boot_id: str = "3d9f2b1a-7777-4aaa-9bbb-0123456789ab"
    address: str = "10.20.30.41"
    peer_address: str = "10.20.30.42"
    address6: str = "2001:0db8:0a0b:0c0d:0000:0000:0000:0041"
    guid: str = "b83f:d203:00c4:71e2"


@dataclass(frozen=True)
class Secrets:
    """What must never leave the machine."""

    api_key: str = "sk-live-0123456789abcdefghij"
    hub_token: str = "hf_QwErTyUiOpAsDfGhJkLzXcVbNm123456"
    admin_token: str = "tok-5f2a9c7e81d34b60"
    hashed_key: str = "c0ffee5f00ba4c0ffee5f00ba4c0ffee"

    def all(self) -> Sequence[str]:
        return (self.api_key, self.hub_token, self.admin_token, self.hashed_key)


def options(identity: Identity | None = None) -> Options:
    """What discovery is told about the machine."""
    user = (identity or Identity()).user
    return Options(
        model_dirs=("/srv/models", f"/home/{user}/models"),
        engine_commands={"sim": ("/opt/sim",)},
        gateway_bundle=BUNDLE,
        gateway_admin_url=ADMIN,
        gateway_admin_token_file=TOKEN_FILE,
        module_version="1.2.3",
    )


def machine(identity: Identity | None = None, secrets: Secrets | None = None) -> Machine:
    """The machine with these identities and secrets."""
    return Machine(identity or Identity(), secrets or Secrets())


class Machine(FakeHost):
    """Time goes on: each look at the clock is a second later. `shown` is what systemd says of the unit."""

    def __init__(self, identity: Identity, secrets: Secrets) -> None:
        files, links = _adapter(identity)
        super().__init__(
            {**_system(identity), **_files(identity, secrets), **files},
            links=links,
            commands=_commands(identity),
            sizes={"/srv/models/tiny.gguf": 4000},
            space={"/": (10**12, 4 * 10**11), "/srv/models": (9 * 10**12, 10**12)},
            answers={
                f"{ADMIN}/api/v1/endpoints": Response(200, _endpoints(identity)),
                f"http://{identity.address}:18000/health": Response(200, b"ok"),
                f"http://{identity.address}:18000/v1/models": Response(200, b'{"data": [{"id": "chat"}]}'),
            },
        )
        self._now = 1_700_000_000.0

    def run(self, argv: Sequence[str], timeout_s: float, stdin: str | None = None) -> Result:
        if list(argv[:4]) == ["env", "TZ=UTC", "systemctl", "show"]:
            said = {"Id": UNIT, "LoadState": "loaded", "ActiveState": "active", "SubState": "running", "MainPID": "77"}
            return Result(0, "".join(f"{key}={value}\n" for key, value in said.items()), "")
        return super().run(argv, timeout_s, stdin)

    def clock(self) -> float:
        self._now += 1.0
        return self._now


def unit_text(identity: Identity, secret: str = "") -> str:
    """The unit of a replica, true to its digests."""
    body = f"[Service]\nExecStart=/opt/sim --host {identity.address}{secret}\n"
    body += f"Environment=CUDA_VISIBLE_DEVICES={identity.uuid} PEER={identity.peer}\nUser={identity.user}\n\n"
    header = unitfile.Header(
        replica="chat/0",
        rank=0,
        members=1,
        served_name="chat",
        address=identity.address,
        port=18000,
        devices=(identity.uuid,),
        process_digest="sha256:" + "ab" * 32,
    )
    digest = unitfile.text_digest(body + unitfile.section(header))
    return body + unitfile.section(header._replace(text_digest=digest))


def _system(identity: Identity) -> dict[str, str | bytes]:
    return {
        "/proc/sys/kernel/hostname": f"{identity.host}.{identity.domain}\n",
        "/proc/sys/kernel/osrelease": "6.8.0-1013\n",
        "/proc/sys/kernel/random/boot_id": f"{identity.boot_id}\n",
        "/proc/stat": "cpu 1 2 3\nbtime 1699000000\n",
        "/proc/meminfo": "MemTotal: 528000000 kB\nMemAvailable: 500000000 kB\n",
        "/proc/cpuinfo": "processor\t: 0\nphysical id\t: 0\ncore id\t: 0\nflags\t: avx2 amx_tile\n",
        "/proc/net/tcp": _sockets(identity.address),
        "/proc/net/fib_trie": f"     |-- {identity.address}\n        /32 host LOCAL\n",
        "/proc/net/if_inet6": f"{identity.address6.replace(':', '')} 02 40 00 80     eth0\n",
        "/proc/devices": "Character devices:\n195 nvidia\n237 nvidia-caps-imex-channels\n",
        "/proc/self/mountinfo": (
            "21 1 8:2 / / rw - ext4 /dev/sda2 rw\n"
            f"40 21 0:50 / /srv/models ro - nfs4 filer-2.{identity.domain}:/export ro,addr={identity.peer_address}\n"
        ),
        "/etc/os-release": "ID=ubuntu\nVERSION_ID=24.04\n",
        "/usr/lib/systemd/system/nvidia-imex.service": "",
        "/etc/nvidia-imex/nodes_config.cfg": f"{identity.address}\n{identity.peer_address}\n",
        "/dev/nvidia-caps-imex-channels/channel0": "",
        "/proc/driver/nvidia/gpus/0000:10:00.0/information": f"Model: \t NVIDIA H100\nGPU UUID: \t {identity.uuid}\n",
        "/sys/module/nvidia/version": "570.86.15\n",
    }


def _files(identity: Identity, secrets: Secrets) -> dict[str, str | bytes]:
    environ = f"HF_TOKEN={secrets.hub_token}\0{unitfile.DIGEST_VARIABLE}=sha256:{'ab' * 32}\0PASSWORD=x\0"
    bundle = {
        "generation": 12,
        "routes_digest": "sha256:" + "cd" * 32,
        "written_at": 1_699_999_000.0,
        "keys": [{"hash": secrets.hashed_key}],
        "routes": {"chat": {"api_key": secrets.api_key}},
    }
    return {
        f"/etc/systemd/system/{UNIT}": unit_text(identity),
        "/proc/77/environ": environ,
        "/proc/77/cgroup": f"0::/system.slice/{UNIT}\n",
        "/proc/4242/cgroup": f"0::/user.slice/{identity.user}.scope\n",
        "/proc/4242/cmdline": f"/usr/bin/python\0serve\0--api-key\0{secrets.api_key}\0",
        f"{STATE}/generation": "12\n",
        f"{STATE}/units/{UNIT}.json": json.dumps({"generation": 12, "health_path": "/health"}),
        BUNDLE: json.dumps(bundle),
        TOKEN_FILE: f"{secrets.admin_token}\n",
        "/opt/sim": "",
        "/srv/models/tiny.gguf": b"GGUF\x03\x00\x00\x00" + bytes(32),
        f"/home/{identity.user}/models/notes.txt": "none",
    }


def _commands(identity: Identity) -> dict[str, Result | str]:
    own, far = f"0x{identity.guid.replace(':', '')}", f"0x2c903{identity.guid.replace(':', '')[-8:]}"
    process = smi_texts.process(4242, f"/home/{identity.user}/bin/train", "900 MiB")
    report = smi_texts.document(smi_texts.card(gpu_uuid=identity.uuid, processes=[process]))
    report = report.replace("1650000000000", identity.serial)
    report = report.replace("00000000-0000-0000-0000-000000000000", identity.cluster).replace(
        "<cliqueId>0", "<cliqueId>3"
    )
    up = {"0": {"status": "CONNECTED"}, "1": {"status": "CONNECTED"}}
    nodes = {
        str(index): {"status": "READY", "host": address, "hostname": name, "connections": up}
        for index, (address, name) in enumerate(
            [(identity.address, identity.host), (identity.peer_address, identity.peer)]
        )
    }
    domain = json.dumps({"nodes": nodes, "status": "UP"})
    log = f"[    0.000000] Linux version 6.8.0 on {identity.host}\n"
    log += f"[   12.500000] usb 1-1: SerialNumber: {identity.serial}\n"
    log += "[  812.500000] NVRM: Xid (PCI:0000:10:00): 63, pid=4242, name=train, Row Remapper: New row marked\n"
    return {
        "systemctl --version": "systemd 255 (255.4)\n",
        "systemctl is-active nvidia-imex.service": "active\n",
        "nvidia-smi -q -x": report,
        "nvidia-smi --query-gpu=uuid,compute_cap --format=csv,noheader": f"{identity.uuid}, 9.0\n",
        "nvidia-imex-ctl -N -j": domain,
        "dmesg": log,
        "/opt/sim --version": "llmgw-sim 1.0.0 (simulator)\n",
        "nvidia-smi topo -m": _TOPOLOGY,
        "sminfo -C mlx5_0 -P 1": f"sminfo: sm lid 1 sm guid {far}, activity count 3 priority 0 state 3\n",
        "smpquery -C mlx5_0 -P 1 -D nodeinfo 0,1": f"NodeType:...Switch\nGuid:......{far}\n",
        "ibnetdiscover -p -C mlx5_0 -P 1": (
            f"CA 32 1 {own} 4x NDR - SW 1 1 {far} ( '{identity.host} mlx5_0' - 'MF0;{identity.peer}:MQM9700/U1' )\n"
            f"SW 1 1 {far} 4x NDR - CA 32 1 {own} ( 'MF0;{identity.peer}:MQM9700/U1' - '{identity.host} mlx5_0' )\n"
        ),
    }


def _adapter(identity: Identity) -> tuple[rdma_hosts.Files, rdma_hosts.Links]:
    gid = f"fe80:0000:0000:0000:{identity.guid}"
    return rdma_hosts.adapter(
        "mlx5_0",
        "0000:0c:00.0",
        rdma_hosts.infiniband_port(0, gids__0=gid),
        vpd=rdma_hosts.vpd(PN="MCX755", SN=identity.serial, VA="MLX:MN=MLNX:MODL=CX75310A"),
        files={"node_guid": identity.guid, "node_desc": f"{identity.host} mlx5_0"},
    )


def _endpoints(identity: Identity) -> bytes:
    endpoint = {"id": f"chat/0@{identity.host}", "state": "ready", "in_flight": 2, "since": 1_699_999_500.0}
    return json.dumps({"format_version": 1, "generation": 12, "endpoints": [endpoint]}).encode()


def _sockets(address: str) -> str:
    """The kernel's table: a listener at the address, and a connection of a client."""
    words = "".join(f"{int(part):02X}" for part in reversed(address.split(".")))
    return (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        f"   0: {words}:4650 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1234 1\n"
        f"   1: {words}:4650 0B16210A:C350 01 00000000:00000000 00:00000000 00000000     0        0 1235 1\n"
    )
