# SPDX-License-Identifier: Apache-2.0
"""Cards of the showcase as discovery reports them through NVML when nothing is wrong and nothing runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gpu_class
from llmgw.nodekit import contract
from tests.support.showcase.invented import between, identity

DRIVER = contract.GpuDriver("nvml", None, "580.95.05", "13.0")
NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
_RESERVED_MIB = 479
_IDLE_MIB = 4


@dataclass(frozen=True)
class Board:
    """The cards of one kind of machine. `islands` are the cards that NVLink joins, `links` those of a pair of cards.

    `near` gives each card's adapters, the nearest first, by their distance; adapters that are not named are further.
    """

    name: str
    capability: str
    mib: int
    watts: float
    addresses: tuple[str, ...]
    islands: tuple[tuple[int, ...], ...] = ()
    links: int = 0
    active: int = 0
    gbps: float | None = None
    adapters: tuple[str, ...] = ()
    cpus: tuple[str, ...] = ("0-47,96-143", "48-95,144-191")
    """Of each socket; cards and adapters are shared out among them."""
    switched: bool = False


SXM = ("18", "2a", "3a", "5d", "9a", "ab", "ba", "db")
RAILS = tuple(f"mlx5_{number}" for number in range(8))
HGX_H100 = Board(
    "NVIDIA H100 80GB HBM3",
    "9.0",
    81559,
    700.0,
    tuple(f"0000:{bus}:00.0" for bus in SXM),
    islands=(tuple(range(8)),),
    links=18,
    active=18,
    gbps=26.562,
    adapters=RAILS,
    switched=True,
)
HGX_H200 = replace(HGX_H100, name="NVIDIA H200", mib=143771)
L40S = Board(
    "NVIDIA L40S",
    "8.9",
    46068,
    350.0,
    ("0000:01:00.0", "0000:41:00.0", "0000:81:00.0", "0000:c1:00.0"),
    cpus=("0-31,64-95", "32-63,96-127"),
)
A100_PCIE = Board(
    "NVIDIA A100 80GB PCIe",
    "8.0",
    81920,
    300.0,
    ("0000:17:00.0", "0000:31:00.0", "0000:b1:00.0", "0000:ca:00.0"),
    islands=((0, 1), (2, 3)),
    links=12,
    active=12,
    gbps=25.0,
    cpus=("0-127",),
)
A100_SXM = Board(
    "NVIDIA A100-SXM4-80GB",
    "8.0",
    81920,
    400.0,
    ("0000:01:00.0", "0000:41:00.0", "0000:81:00.0", "0000:c1:00.0"),
    islands=((0, 1, 2, 3),),
    links=4,
    active=12,
    gbps=25.0,
    cpus=("0-31,64-95", "32-63,96-127"),
)
GB200 = Board(
    "NVIDIA GB200",
    "10.0",
    189471,
    1200.0,
    ("0008:01:00.0", "0009:01:00.0", "0018:01:00.0", "0019:01:00.0"),
    islands=((0, 1, 2, 3),),
    links=18,
    active=18,
    gbps=53.125,
    adapters=RAILS[:4],
    cpus=("0-71", "72-143"),
)
_MIG = {"3g.40gb": (40192, 42, (1, 2)), "1g.10gb": (9728, 14, tuple(range(7, 14)))}
"""Profile: MiB, multiprocessors, ids of the GPU instances that a card has room for."""


def card_uuid(node: str, index: int) -> str:
    """UUID of a card."""
    return f"GPU-{identity(node, 'card', index)}"


def cards(node: str, board: Board) -> tuple[contract.Gpu, ...]:
    """All cards of a machine."""
    return tuple(_card(node, board, index) for index in range(len(board.addresses)))


def cut(node: str, card: contract.Gpu, *profiles: str) -> contract.Gpu:
    """The card in MIG mode, with one instance for each profile; its NVLinks are off then."""
    taken: dict[str, int] = {}
    instances = []
    for index, profile in enumerate(profiles):
        mib, multiprocessors, ids = _MIG[profile]
        place = taken[profile] = taken.get(profile, -1) + 1
        instances.append(
            contract.MigInstance(
                uuid=f"MIG-{identity(node, 'instance', card.index, index)}",
                index=index,
                gpu_instance_id=ids[place],
                compute_instance_id=0,
                profile=profile,
                device_class=gpu_class.instance_class(card.device_class, profile),
                memory_total_mib=mib,
                memory_used_mib=_IDLE_MIB * 3,
                multiprocessors=multiprocessors,
                processes=(),
                ecc=contract.Ecc(uncorrected_volatile=0),
            )
        )
    return replace(
        card,
        mig_mode=True,
        mig_pending=True,
        mig_instances=tuple(instances),
        utilization_percent=None,
        nvlink_links_active=0,
        nvlink_peers=(),
    )


def without_links_to(gpus: Sequence[contract.Gpu], gone: frozenset[str]) -> tuple[contract.Gpu, ...]:
    """The cards without NVLinks to those that answer no more, or whose links are off."""
    return tuple(
        replace(gpu, nvlink_peers=tuple(peer for peer in gpu.nvlink_peers or () if peer.uuid not in gone))
        for gpu in gpus
    )


def _card(node: str, board: Board, index: int) -> contract.Gpu:
    socket = index * len(board.cpus) // len(board.addresses)
    peers = next((island for island in board.islands if index in island), ())
    return contract.Gpu(
        index=index,
        uuid=card_uuid(node, index),
        name=board.name,
        device_class=gpu_class.card_class(board.name, board.mib),
        pci_address=board.addresses[index],
        serial=str(between(1_650_000_000_000, 1_659_999_999_999, node, "serial", index)),
        form_factor=gpu_class.form_factor(board.name),
        compute_capability=board.capability,
        memory_total_mib=board.mib,
        memory_used_mib=_IDLE_MIB,
        memory_reserved_mib=_RESERVED_MIB,
        unified_memory=False,
        utilization_percent=0,
        temperature_c=between(27, 36, node, "heat", index),
        power_draw_w=round(board.watts / 10 + between(0, 90, node, "power", index) / 10, 1),
        power_limit_w=board.watts,
        persistence_mode=True,
        pcie_width=16,
        pcie_width_max=16,
        throttle_reasons=("gpu_idle",),
        recovery_action="None",
        ecc=contract.Ecc(
            enabled=True,
            corrected_volatile=0,
            uncorrected_volatile=0,
            corrected_aggregate=0,
            uncorrected_aggregate=0,
            sram_threshold_exceeded=False,
        ),
        remap=contract.Remap(corrected_rows=0, uncorrected_rows=0, pending=False, failed=False),
        xids=(),
        processes=(),
        mig_mode=False,
        mig_pending=False,
        numa_node=socket,
        cpu_affinity=board.cpus[socket],
        nvlink_links=board.active or None,
        nvlink_links_active=board.active or None,
        nvlink_gbps=board.gbps,
        nvlink_peers=tuple(contract.NvlinkPeer(card_uuid(node, peer), board.links) for peer in peers if peer != index),
        nic_paths=tuple(
            contract.NicPath(adapter, "PIX" if place == index else _far(board, place, socket))
            for place, adapter in enumerate(board.adapters)
        ),
        fabric=contract.GpuFabric("Completed", "Success", NO_CLUSTER, 0) if board.switched else None,
    )


def _far(board: Board, place: int, socket: int) -> str:
    return "NODE" if place * len(board.cpus) // len(board.adapters) == socket else "SYS"
