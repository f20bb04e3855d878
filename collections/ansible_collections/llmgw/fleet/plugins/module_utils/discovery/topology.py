# SPDX-License-Identifier: BSD-2-Clause
"""How near the cards of a node are to one another, to its CPUs and to its network adapters (D6).

Private to llmgw. `nvidia-smi topo -m` tells all of it and can fail on a healthy node; NUMA nodes and CPUs that it
leaves out the kernel tells in /sys. What another path (NVML) already gave is kept.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from typing import Dict, Mapping, NamedTuple, Optional, Sequence, Tuple, TypeVar

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.host import MISSING, UNUSABLE, Host, Result
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import nvlink, topo
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

COMMAND = "nvidia-smi"
_PCI = "/sys/bus/pci/devices"
# Both have been seen to take more than ten seconds on cards without persistence mode.
_MATRIX_S = 30.0
_LINKS_S = 15.0
_QUOTE = 300
_SMALL_FILE = 65536
_DISTANCES = {"PIX": "PIX", "PXB": "PXB", "PHB": "PHB", "NODE": "NODE", "SYS": "SYS", "SOC": "SYS"}
_NVLINK = re.compile(r"NV(?P<links>[0-9]{1,3})")
_NODE = re.compile(r"[0-9]{1,6}")
_UNNAMED = re.compile(r"NIC[0-9]+")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Local:
    """What /sys says of a card's PCI slot: NUMA node and CPUs (`0-31,64-95`)."""

    numa_node: Optional[int] = None
    cpus: Optional[str] = None


@dataclass(frozen=True)
class Topology:
    """What the machine told. `failure`: why there is no matrix. `local`: by PCI address, what the matrix lacks."""

    matrix: Optional[topo.TopologyMatrix] = None
    links: Optional[nvlink.NvlinkStatus] = None
    local: Mapping[str, Local] = field(default_factory=dict)
    failure: Optional[str] = None
    said: Optional[str] = None


def read_topology(host: Host, gpus: Sequence[contract.Gpu], budget_s: float) -> Topology:
    """What nvidia-smi and /sys tell of these cards within `budget_s` seconds; without cards nothing is asked."""
    if not gpus:
        return Topology()
    deadline = time.monotonic() + budget_s
    found = _matrix(_ask(host, deadline, _MATRIX_S, "topo", "-m"))
    if _may_have_links(gpus, found.matrix):
        found = replace(found, links=_links(_ask(host, deadline, _LINKS_S, "nvlink", "-s")))
    local = {gpu.pci_address: _local(host, gpu) for gpu in with_topology(gpus, found) if gpu.pci_address}
    return replace(found, local={address: told for address, told in local.items() if told != Local()})


def with_topology(gpus: Sequence[contract.Gpu], topology: Optional[Topology]) -> Tuple[contract.Gpu, ...]:
    """The cards with what the topology says of them; what a card already knows stays."""
    if topology is None:
        return tuple(gpus)
    numbers = numbered(gpus, topology.matrix)
    uuids = {numbers[gpu.index]: gpu.uuid for gpu in gpus if gpu.index in numbers and gpu.uuid is not None}
    return tuple(_completed(gpu, numbers.get(gpu.index), uuids, topology) for gpu in gpus)


def numbered(gpus: Sequence[contract.Gpu], matrix: Optional[topo.TopologyMatrix]) -> Dict[int, int]:
    """Number in the matrix by index of the card; {} when the matrix cannot be one of these cards.

    Equal counts are equal indexes. A lost card has an index and perhaps no column: then those that answer are counted.
    """
    if matrix is None:
        return {}
    answering = [gpu.index for gpu in gpus if gpu.uuid is not None]
    if matrix.n_gpus >= len(gpus):
        return {gpu.index: gpu.index for gpu in gpus}
    if matrix.n_gpus == len(answering):
        return {index: number for number, index in enumerate(sorted(answering))}
    return {}


def _ask(host: Host, deadline: float, at_most_s: float, *arguments: str) -> Result:
    left = deadline - time.monotonic()
    if left <= 0:
        return Result(UNUSABLE, "", "no time left", timed_out=True)
    return host.run((COMMAND, *arguments), min(at_most_s, left))


def _matrix(answer: Result) -> Topology:
    said = " ".join((answer.stdout.strip() or answer.stderr.strip()).split())[:_QUOTE] or None
    if answer.rc == MISSING:
        return Topology(failure=f"{COMMAND} is not installed", said=said)
    if answer.timed_out:
        return Topology(failure=f"'{COMMAND} topo -m' did not end in time", said=said)
    if answer.rc != 0:
        return Topology(failure=f"'{COMMAND} topo -m' ended with exit status {answer.rc}", said=said)
    try:
        return Topology(matrix=topo.read(answer.stdout))
    except Unreadable as error:
        return Topology(failure=f"'{COMMAND} topo -m' is unreadable: {error}", said=said)


def _links(answer: Result) -> Optional[nvlink.NvlinkStatus]:
    """The links, also of an answer that ends with an error about one card; None when there are none in it."""
    try:
        return nvlink.read(answer.stdout)
    except Unreadable:
        return None


def _may_have_links(gpus: Sequence[contract.Gpu], matrix: Optional[topo.TopologyMatrix]) -> bool:
    """Whether asking for links can tell more: a matrix of one card shows none, and links that are all down neither."""
    if all(gpu.nvlink_links is not None and gpu.nvlink_links_active is not None for gpu in gpus):
        return False
    if matrix is None or matrix.n_gpus < 2 or matrix.nvlink_pairs:  # noqa: PLR2004 - a pair takes two
        return True
    return any((gpu.form_factor or "").startswith("SXM") for gpu in gpus)


def _local(host: Host, gpu: contract.Gpu) -> Local:
    """What the kernel tells of what is not known of this card."""
    node = _text(host, gpu, "numa_node") if gpu.numa_node is None else ""
    cpus = _text(host, gpu, "local_cpulist") if gpu.cpu_affinity is None else ""
    # The node is -1 where the firmware does not tell.
    return Local(int(node) if _NODE.fullmatch(node) else None, cpus or None)


def _text(host: Host, gpu: contract.Gpu, name: str) -> str:
    return (host.read(f"{_PCI}/{gpu.pci_address}/{name}", _SMALL_FILE) or b"").decode("ascii", "replace").strip()


def _completed(gpu: contract.Gpu, number: Optional[int], uuids: Mapping[int, str], topology: Topology) -> contract.Gpu:
    matrix = topology.matrix
    row = next((row for row in matrix.per_gpu if row.gpu == number), None) if matrix else None
    local = topology.local.get(gpu.pci_address or "", Local())
    links = _links_of(gpu, number, topology.links)
    return replace(
        gpu,
        numa_node=_first(gpu.numa_node, row.numa_node if row else None, local.numa_node),
        cpu_affinity=_first(gpu.cpu_affinity, row.cpu_affinity if row else None, local.cpus),
        memory_numa_node=_first(gpu.memory_numa_node, row.gpu_numa_id if row else None),
        nvlink_peers=_first(gpu.nvlink_peers, _peers(gpu, number, uuids, matrix)),
        nic_paths=_first(gpu.nic_paths, _paths(row)),
        nvlink_links=_first(gpu.nvlink_links, links.total),
        nvlink_links_active=_first(gpu.nvlink_links_active, links.active),
        nvlink_gbps=_first(gpu.nvlink_gbps, links.gbps),
    )


def _first(*values: Optional[_T]) -> Optional[_T]:
    """The first that is known."""
    return next((value for value in values if value is not None), None)


def _peers(
    gpu: contract.Gpu, number: Optional[int], uuids: Mapping[int, str], matrix: Optional[topo.TopologyMatrix]
) -> Optional[Tuple[contract.NvlinkPeer, ...]]:
    """The cards at the other ends of NVLinks; None when the matrix does not tell of every other card.

    In MIG mode a card's links are off, and the matrix does not tell whether there are any.
    """
    if matrix is None or number is None:
        return None
    words = {pair: word for word, pairs in matrix.gpu_pairs_by_type.items() for pair in pairs}
    peers = []
    for other in range(matrix.n_gpus):
        word = "X" if other == number else words.get((min(number, other), max(number, other)))
        if word is None:
            return None
        linked = _NVLINK.fullmatch(word)
        if linked is not None and other in uuids:
            peers.append(contract.NvlinkPeer(uuids[other], int(linked.group("links"))))
    return tuple(peers) if peers or not gpu.mig_mode else None


def _paths(row: Optional[topo.CardRow]) -> Optional[Tuple[contract.NicPath, ...]]:
    """The adapters by name; one that has only a number in the matrix is unknown, and so are all where all are such."""
    if row is None:
        return None
    found = tuple(
        contract.NicPath(device, _DISTANCES[word])
        for device, word in row.nics.items()
        if word in _DISTANCES and not _UNNAMED.fullmatch(device)
    )
    return found if found or not row.nics else None


class _Links(NamedTuple):
    total: Optional[int] = None
    active: Optional[int] = None
    gbps: Optional[float] = None


def _links_of(gpu: contract.Gpu, number: Optional[int], status: Optional[nvlink.NvlinkStatus]) -> _Links:
    for card in status.gpus if status is not None else ():
        if card.uuid == gpu.uuid if card.uuid and gpu.uuid else card.index == number:
            # Where all are inactive the tool lists none: how many there are is then unknown.
            unlisted = not card.n_links and any("inactive" in note.lower() for note in card.notes)
            return _Links(None if unlisted else card.n_links, card.active_links, min(card.gbps_per_link, default=None))
    return _Links()
