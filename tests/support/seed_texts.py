# SPDX-License-Identifier: Apache-2.0
"""Small texts of every kind that `llmgw facts parse` reads, of machines that do not exist: what tests damage."""

from __future__ import annotations

import json

from tests.support import smi_texts

_Q = """
==============NVSMI LOG==============

Timestamp                                 : Mon Jan  5 10:00:00 2026
Driver Version                            : 570.86.15
CUDA Version                              : 12.8

Attached GPUs                             : 2
GPU 00000000:10:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Persistence Mode                      : Enabled
    Addressing Mode                       : None
    MIG Mode
        Current                           : Enabled
        Pending                           : Enabled
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 1
        Compute Instance ID               : 0
        Device Attributes
            Shared
                Multiprocessor count      : 60
        FB Memory Usage
            Total                         : 40448 MiB
            Used                          : 37 MiB
    Minor Number                          : 0
    GPU UUID                              : GPU-0000aaaa-0000-4000-8000-000000000001
    GPU Recovery Action                   : None
    FB Memory Usage
        Total                             : 81559 MiB
        Reserved                          : 551 MiB
        Used                              : 75 MiB
    Utilization
        GPU                               : N/A
    ECC Mode
        Current                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
        Aggregate
            DRAM Uncorrectable            : 1
    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : 0
        ClusterUUID                       : 00000000-0000-0000-0000-000000000000
        Health
            Summary                       : Healthy
    Processes
        GPU instance ID                   : 1
        Compute instance ID               : 0
        Process ID                        : 4242
            Type                          : C
            Name                          : /opt/engine [worker: 0]
            Used GPU Memory               : 512 MiB

GPU 00000000:11:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Processes                             : None
"""
_L = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0000aaaa-0000-4000-8000-000000000001)
  MIG 3g.40gb     Device  0: (UUID: MIG-0000bbbb-0000-5000-8000-000000000001)
  MIG 1c.3g.40gb  Device  1: (UUID: MIG-0000bbbb-0000-5000-8000-000000000002)
GPU 1: Tesla V100-SXM2-32GB (UUID: GPU-0000aaaa-0000-4000-8000-000000000002)
"""
_CSV = """index, name, memory.total [MiB], utilization.gpu [%], temperature.gpu
0, NVIDIA L40S, 46068 MiB, 3 %, [N/A]

1, NVIDIA L40S, 46068 MiB, 0 %, 31
"""
_TOPO = """\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tPIX\tSYS\t0-31\t0\t\tN/A
GPU1\tNV18\t X \tSYS\tPIX\t32-63\t1\t\tN/A
NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t
NIC1\tSYS\tPIX\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_3
"""
_P2P = """ \tGPU0\tGPU1\tGPU2
 GPU0\tX\tOK\tNS
 GPU1\tOK\tX\tCNS
 GPU2\tNS\tCNS\tX

Legend:

  X    = Self
  OK   = Status Ok
  NS   = Not supported
"""
_NVLINK = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0000aaaa-0000-4000-8000-000000000001)
\t Link 0: 26.562 GB/s
\t Link 1: <inactive>
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-0000aaaa-0000-4000-8000-000000000002)
NVML: Unable to retrieve NVLink information as NVLinks are not supported for Devices in MIG mode
"""
_IMEX = """Connectivity Table Legend:
C - Connected - Ready for operation

1/05/2026 10:00:00.123
Nodes:
Node #0   - 10.1.0.11*      - READY                - Version: 570.86.15   - Hostname: tray-a
Node #1   - 10.1.0.12       - UNAVAILABLE          -                      - Hostname: N/A

 Nodes From\\To  0   1
       0        C   N
       1        N   I
Domain State: DEGRADED
"""
_IMEX_JSON = json.dumps(
    {
        "nodes": {
            "0": {"status": "READY", "host": "10.1.0.11", "connections": {"0": {"status": "CONNECTED"}}},
        },
        "status": "UP",
    }
)
_IMEX_DEV = """Character devices:
  1 mem
195 nvidia
234 nvidia-caps
237 nvidia-caps-imex-channels
crw-r--r-- 1 root root 237, 0 Jan  5 10:00 channel0
/dev/nvidia-caps-imex-channels/channel1
"""
_FABRIC = """    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : 3
        ClusterUUID                       : 0a0b0c0d-0000-4000-8000-00000000000f
        Health
            Summary                       : Limited Capacity
            Bandwidth                     : Degraded
"""
_SYSFS = """/sys/class/infiniband/mlx5_0/board_id: MT_0000000777
/sys/class/infiniband/mlx5_0/ports/1/link_layer: InfiniBand
/sys/class/infiniband/mlx5_0/ports/1/rate: 400 Gb/sec (4X NDR)
/sys/class/infiniband/mlx5_0/ports/1/state: 4: ACTIVE
/sys/class/infiniband/mlx5_1/fw_ver: 28.40.1000
/sys/class/infiniband/mlx5_1/ports/1/state: 1: DOWN
"""
_MOUNTINFO = """21 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
40 21 0:50 / /srv/models\\040two ro,noatime shared:7 master:2 - nfs4 filer:/export ro,vers=4.2
41 21 0:51 /sub /lus rw - lustre 10.1.0.1@o2ib:10.1.0.2@o2ib:/fs rw
"""
_MEMINFO = """MemTotal:       528000000 kB
MemFree:         9000000 kB
MemAvailable:   500000000 kB
SwapTotal:             0 kB
HugePages_Total:      16
Hugepagesize:       2048 kB
"""
_TABLE = """Mon Jan  5 10:00:00 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA L40S                    On  |   00000000:10:00.0 Off |                    0 |
| ERR!   31C    P8             35W / 350W |       4MiB /  46068MiB |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
"""

SEEDS: dict[str, tuple[str, ...]] = {
    "nvidia-smi-xml": (
        smi_texts.document(
            smi_texts.card(
                mig=("Enabled", "Enabled"),
                instances=[smi_texts.instance(0, 1)],
                processes=[smi_texts.process(5, "x", "3 MiB", place=("1", "0"))],
            )
        ),
        smi_texts.OLD,
    ),
    "nvidia-smi-q": (_Q,),
    "smi-L": (_L,),
    "smi-csv": (_CSV, "0, NVIDIA L40S, 46068\n1, NVIDIA L40S, 46068\n"),
    "topo-m": (_TOPO, _TOPO.expandtabs(8)),
    "topo-p2p": (_P2P,),
    "nvlink-s": (_NVLINK,),
    "imex": (_IMEX, _IMEX_JSON, "READY\n"),
    "imex-dev": (_IMEX_DEV,),
    "fabric": (_FABRIC,),
    "sysfs-ib": (_SYSFS,),
    "mountinfo": (_MOUNTINFO,),
    "meminfo": (_MEMINFO,),
    "error": (
        "Unable to determine the device handle for GPU1: 0000:11:00.0: GPU is lost.  Reboot the system.\n",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.86\n",
        _TABLE,
    ),
}
"""Kind to texts that its reader reads."""
