# SPDX-License-Identifier: Apache-2.0
"""Large fleets and catalogs for `bench-plan`, written as they lie on an operator's disk: fact files, hosts, catalog.

A fleet repeats a pattern of 250 nodes and 2,000 cards: H100 and H200 with NVSwitch and eight adapters, L40S by eight
and by ten, trays of GB200 in NVLink domains of 18, A100 of which some are in MIG mode, and nodes of two classes. Racks
hold 8 nodes, fabrics 128. Memory, weights and health differ by node; some nodes are cordoned, some report no memory.
Facts of one kind are made once as text, and a node's own values are put in: thousands of files take seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from llmgw.fleet.hosts import Host
from llmgw.nodekit import contract

NOW = 1_760_000_000.0
GB = 10**9
PATTERN = 250
RACK, POD, DOMAIN = 8, 128, 18
MODELS = 40
NODE_MARK, MEMORY_MARK, FIRST_LID = "@node@", 123454321, 700_000
GUID_MARK, MANAGER_MARK, DOMAIN_MARK = "0x@guid@", "0x@manager@", "@domain@"
MIB = {"h100-80g": 81559, "h200-141g": 143771, "l40s-45g": 46068, "a100-80g": 81920, "gb200-186g": 189471}
CAPABILITY = {"h100-80g": "9.0", "h200-141g": "9.0", "l40s-45g": "8.9", "a100-80g": "8.0", "gb200-186g": "10.0"}
KINDS = (
    ("h100", 125, (("h100-80g", 8),), 2000),
    ("h200", 50, (("h200-141g", 8),), 2000),
    ("l40s", 27, (("l40s-45g", 8),), 768),
    ("l40s-ten", 18, (("l40s-45g", 10),), 512),
    ("tray", 9, (("gb200-186g", 4),), 960),
    ("mig", 10, (("a100-80g", 8),), 1000),
    ("mixed", 11, (("l40s-45g", 4), ("a100-80g", 4)), 512),
)
"""Kind, how many of 250, its cards in order, GB of host memory."""
WITH_ADAPTERS = ("h100", "h200", "tray")


def kind_of(number: int) -> str:
    """The kind of a node by its number: every stretch of 250 has each in its share, and neighbours differ."""
    place = number * 37 % PATTERN
    for kind, share, _cards, _memory in KINDS:
        if place < share:
            return kind
        place -= share
    raise AssertionError(number)


def name_of(number: int) -> str:
    """`n00042`."""
    return f"n{number:05d}"


def write_facts(folder: Path, count: int, models: int = MODELS) -> int:
    """Write `count` fact files as the facts cache has them; returns the number of cards."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {kind: _text(kind) for kind, _share, _cards, _memory in KINDS}
    trays = cards = 0
    for number in range(count):
        kind = kind_of(number)
        text = texts[kind].replace(NODE_MARK, name_of(number))
        if kind == "tray":
            text = text.replace(DOMAIN_MARK, f"{trays // DOMAIN + 1:08x}-7d1e-4b77-9c55-0e61a2d4f003")
            text = text.replace('"@imex@"', _imex_nodes(count, trays))
            trays += 1
        for port in range(8 if kind in WITH_ADAPTERS else 0):
            text = text.replace(f"{GUID_MARK}{port}", f"0x5000be{number * 8 + port:010x}")
            text = text.replace(str(FIRST_LID + port), str(number % POD * 8 + port + 2))
        text = text.replace(MANAGER_MARK, f"0x5000ff{number // POD:010x}")
        text = text.replace(str(MEMORY_MARK), _memory(number, kind)).replace('"@weights@"', _weights(number, models))
        text = text.replace('"@findings@"', _findings(number))
        (folder / f"{name_of(number)}.json").write_text(text, encoding="utf-8")
        cards += sum(amount for _class, amount in _cards_of(kind))
    return cards


def hosts(count: int) -> tuple[Host, ...]:
    """The inventory: racks, pods and pools as labels, the fabric of each pod, some nodes cordoned; one gateway."""
    found = [Host("gw", node=False, gateway=True)]
    for number in range(count):
        labels = {
            "rack": f"r{number // RACK}",
            "pod": f"p{number // POD}",
            "pool": "batch" if number % 7 == 6 else "prod",
        }
        variables: dict[str, Any] = {
            "llmgw_address": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
            "llmgw_labels": labels,
        }
        if kind_of(number) in WITH_ADAPTERS:
            adapters = {"pci": [f"0000:{0x10 + port:02x}:00.0" for port in range(8)]}
            variables["llmgw_fabrics"] = {f"ib-{number // POD}": {"kind": "infiniband", "hcas": adapters}}
        if number % 101 == 50:
            variables["llmgw_cordoned"] = True
        found.append(Host(name_of(number), node=True, gateway=False, variables=variables))
    return tuple(sorted(found, key=lambda host: host.name))


def _cards_of(kind: str) -> tuple[tuple[str, int], ...]:
    return next(cards for name, _share, cards, _memory in KINDS if name == kind)


def _memory(number: int, kind: str) -> str:
    """Bytes of host memory as JSON; one node in 61 reports none."""
    base = next(memory for name, _share, _cards, memory in KINDS if name == kind)
    return "null" if number % 61 == 30 else str(base * GB * (4, 4, 2, 3)[number % 4] // 4)


def _weights(number: int, models: int) -> str:
    """JSON of the weights that a node holds: some of the models, one of them half fetched."""
    held = [model for model in range(models) if (number * 7 + model * 11) % 23 < 4]
    rows = [
        contract.Weights(
            f"org/model-{model}",
            f"/srv/models/org/model-{model}",
            "directory",
            size_bytes=16 * GB,
            complete=position > 0,
            files=4,
            mount_point="/srv/models",
            shared=False,
            format="safetensors",
        )
        for position, model in enumerate(held)
    ]
    return json.dumps([asdict(row) for row in rows])[1:-1]


def _findings(number: int) -> str:
    """JSON of a node's findings: one node in 53 has a bad card, one in 47 a card with somebody else's process."""
    found = []
    if number % 53 == 20:
        found.append(
            contract.Finding("ecc-uncorrected", "block", "card 1 had 2 errors", "Reset it.", _card(name_of(number), 1))
        )
    if number % 47 == 11:
        said = "pid 4711 (python3) holds 20000 MiB of card 2"
        found.append(contract.Finding("foreign-memory", "block", said, "End it.", _card(name_of(number), 2)))
    return json.dumps([asdict(one) for one in found])[1:-1]


def _imex_nodes(count: int, tray: int) -> str:
    """JSON of the IMEX list of a tray: its whole domain. One tray in 17 is listed by nobody and stays out."""
    trays = [number for number in range(count) if kind_of(number) == "tray"]
    first = tray // DOMAIN * DOMAIN
    listed = [name_of(number) for at, number in enumerate(trays[first : first + DOMAIN], first) if at % 17 != 16]
    return json.dumps([asdict(contract.ImexNode(name, "READY")) for name in listed])[1:-1]


def _card(node: str, index: int) -> str:
    return f"GPU-{node}-{index:02d}-4f6b-8a10-77c0d5e1b204"


def _text(kind: str) -> str:
    """The facts of a node of a kind as text, with marks for all that is the node's own."""
    classes = [device_class for device_class, amount in _cards_of(kind) for _card_of_it in range(amount)]
    cards = tuple(_gpu(kind, index, classes) for index in range(len(classes)))
    facts = contract.NodeFacts(
        module_version="0.1.0",
        collected_at=NOW,
        hardware_key="b00t/580.82",
        system=_system(),
        memory=contract.Memory(MEMORY_MARK, MEMORY_MARK),
        cpu=contract.Cpu("INTEL XEON PLATINUM 8570", 2, 112, 224, 2, ("avx2", "avx512f", "amx_tile")),
        driver=contract.GpuDriver("nvml", None, "580.82.07", "13.0"),
        gpus=cards,
        imex=contract.Imex(active=True, domain_state="UP", listed=True) if kind == "tray" else None,
        rdma_ports=tuple(_port(index) for index in range(8)) if kind in WITH_ADAPTERS else (),
        filesystems=(
            contract.Filesystem("/", "/dev/md0", "ext4", 900 * GB, 400 * GB, shared=False, answers=True),
            contract.Filesystem("/srv/models", "/dev/md1", "xfs", 14_000 * GB, 6000 * GB, shared=False, answers=True),
            contract.Filesystem("/mnt/filer", "filer:/m", "nfs4", 90_000 * GB, 9000 * GB, shared=True, answers=True),
        ),
        engines=tuple(
            contract.Engine(name, (f"/opt/llmgw/engines/{name}/bin/{name}",), "1.0", runnable=True)
            for name in ("vllm", "sglang", "sim")
        ),
        units=(),
        foreign_engines=(),
        generation=1,
        probes=tuple(
            contract.Probe(part, 0.21, ok=True, at=NOW) for part in ("gpus", "memory", "rdma", "storage", "units")
        ),
    )
    document = asdict(facts)
    document["weights"], document["findings"] = ["@weights@"], ["@findings@"]
    if document["imex"]:
        document["imex"]["nodes"] = ["@imex@"]
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _system() -> contract.System:
    return contract.System(
        hostname=NODE_MARK,
        os="ubuntu",
        os_version="24.04",
        kernel="6.8.0-60-generic",
        architecture="x86_64",
        boot_id="5d1ad9b2-8f3c-4c8e-9d57-0c2f7f1f3a11",
        booted_at=NOW - 86_400,
        clock=NOW,
        python_version="3.12.3",
        systemd_version=255,
        scope="system",
        journal=True,
        ephemeral_ports=(32768, 60999),
        listening_ports=(22, 9100, 9400),
    )


def _gpu(kind: str, index: int, classes: list[str]) -> contract.Gpu:
    device_class, half = classes[index], len(classes) // 2
    sliced = kind == "mig" and index >= half + 2
    return contract.Gpu(
        index,
        _card(NODE_MARK, index),
        name=f"NVIDIA {device_class.upper()}",
        device_class=device_class,
        pci_address=f"0000:{0x18 + 8 * index:02x}:00.0",
        serial=f"16530000{index:05d}",
        compute_capability=CAPABILITY[device_class],
        memory_total_mib=MIB[device_class],
        memory_used_mib=4,
        memory_reserved_mib=512,
        utilization_percent=None if sliced else 0,
        temperature_c=31,
        power_draw_w=71.5,
        power_limit_w=700.0,
        persistence_mode=True,
        pcie_width=16,
        pcie_width_max=16,
        throttle_reasons=(),
        recovery_action="none",
        ecc=contract.Ecc(enabled=True, uncorrected_volatile=0, corrected_aggregate=3, uncorrected_aggregate=0),
        remap=contract.Remap(0, 0, pending=False, failed=False),
        xids=(),
        processes=(),
        mig_mode=sliced,
        mig_instances=_instances(index) if sliced else (),
        numa_node=index // half,
        cpu_affinity="0-55,112-167" if index < half else "56-111,168-223",
        nvlink_peers=tuple(_peers(kind, index, classes)),
        nic_paths=tuple(_paths(index)) if kind in WITH_ADAPTERS else (),
        fabric=contract.GpuFabric("Completed", "Success", DOMAIN_MARK, 2, "Healthy", "Full")
        if kind == "tray"
        else None,
    )


def _instances(index: int) -> tuple[contract.MigInstance, ...]:
    return tuple(
        contract.MigInstance(
            f"MIG-{NODE_MARK}-{index:02d}-{number}",
            number,
            number + 1,
            0,
            "3g.40gb",
            "a100-80g-mig-3g.40gb",
            40192,
            37,
            42,
            (),
        )
        for number in range(2)
    )


def _peers(kind: str, index: int, classes: list[str]) -> Iterator[contract.NvlinkPeer]:
    """NVSwitch joins all cards of a machine; bridges join A100 by pairs in nodes of two classes; L40S has none."""
    for other, device_class in enumerate(classes):
        if other == index or device_class != classes[index] or device_class == "l40s-45g":
            continue
        if kind != "mixed" or other // 2 == index // 2:
            yield contract.NvlinkPeer(_card(NODE_MARK, other), 12 if device_class == "a100-80g" else 18)


def _paths(index: int) -> Iterator[contract.NicPath]:
    for adapter in range(8):
        near = "PIX" if adapter == index else "NODE" if adapter // 4 == index // 4 else "SYS"
        yield contract.NicPath(f"mlx5_{adapter}", near)


def _port(index: int) -> contract.RdmaPort:
    return contract.RdmaPort(
        f"mlx5_{index}",
        1,
        link_layer="InfiniBand",
        kind="infiniband",
        state="ACTIVE",
        active=True,
        physical_state="LinkUp",
        rate_gbps=400.0,
        lid=FIRST_LID + index,
        sm_lid=1,
        port_guid=f"{GUID_MARK}{index}",
        pkeys=("0xffff",),
        netdev=f"ib{index}",
        pci_address=f"0000:{0x10 + index:02x}:00.0",
        numa_node=index // 4,
        sm_guids=(MANAGER_MARK,),
        driver="mlx5_core",
        hca_type="MT4129",
        firmware="28.43.1014",
    )
