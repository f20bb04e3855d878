# SPDX-License-Identifier: BSD-2-Clause
"""What is wrong with a node's topology: unknown, not that of its cards, links that are down (D6, P4).

Private to llmgw and pure. None of it blocks a card: a card with fewer links computes, and where a group of cards is
placed is for placement to weigh.
"""

from __future__ import annotations

from typing import Iterable, Iterator, Optional, Sequence, Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.topology import Topology, numbered

_ASK = "Run 'nvidia-smi topo -m' on the node."
_LINKS_AGAIN = (
    "Look for XID 74 and 144 to 150 in the kernel log, and at the fabric manager; reset all cards of the node, or "
    "reboot it. If the links stay down, have the card serviced."
)
_SOFT_RDMA = (
    "Run 'nvidia-smi topo -m' on the node. It gives up where there is a software RDMA device (rdma link: siw, rxe): "
    "remove it if nothing uses it."
)


def judge(gpus: Sequence[contract.Gpu], topology: Optional[Topology]) -> Tuple[Finding, ...]:
    """All findings about the topology of these cards, which already carry it."""
    if topology is None or not gpus:
        return ()
    return (
        *_unknown(gpus, topology),
        *_not_theirs(gpus, topology),
        *_from_the_kernel(gpus, topology),
        *_adapters(topology),
        *links_down(gpus),
    )


def links_down(gpus: Sequence[contract.Gpu]) -> Iterator[Finding]:
    """One finding for each card with fewer active NVLinks than others of its name. In MIG mode they are off."""
    for gpu in gpus:
        expected = max(other.nvlink_links_active or 0 for other in gpus if other.name == gpu.name)
        active = gpu.nvlink_links_active
        if gpu.mig_mode or active is None or active >= expected:
            continue
        said = f"card {gpu.index} has {active} active NVLinks and others of its kind have {expected}"
        # Cards in slots are joined by bridges, which not every pair of them has.
        if active == 0 and not _is_sxm(gpu):
            yield Finding(
                code="nvlink-down",
                severity="info",
                message=f"{said}: it has no NVLink bridge, or one that makes no contact",
                remedy="If it should have a bridge, seat it again.",
                subject=gpu.uuid,
            )
        else:
            yield Finding("nvlink-down", "warn", said, _LINKS_AGAIN, gpu.uuid)
    if len(gpus) > 1 and all(_is_sxm(gpu) and gpu.nvlink_links_active == 0 and not gpu.mig_mode for gpu in gpus):
        yield Finding(
            code="nvlink-none",
            severity="info",
            message=f"none of the {len(gpus)} cards has an active NVLink",
            remedy="On a whole machine look at the fabric manager (systemctl status nvidia-fabricmanager); a virtual "
            "machine may have been given cards without their links.",
        )


def _is_sxm(gpu: contract.Gpu) -> bool:
    return (gpu.form_factor or "").startswith("SXM")


def _unknown(gpus: Sequence[contract.Gpu], topology: Topology) -> Iterator[Finding]:
    if topology.failure is None:
        return
    several = len(gpus) > 1
    known = all(gpu.nvlink_peers is not None for gpu in gpus)
    taken = "NVLinks are known, other paths are not" if known else "cards are taken by index"
    placed = "; NUMA nodes are those that the kernel tells" if any(gpu.numa_node is not None for gpu in gpus) else ""
    yield Finding(
        code="topology-unknown",
        severity="warn" if several and not known else "info",
        message=f"how near the {len(gpus)} cards are to one another and to network adapters is unknown, "
        f"because {topology.failure}: {taken}{placed}"
        if several
        else f"how near the card is to network adapters is unknown, because {topology.failure}{placed}",
        remedy=_SOFT_RDMA if "topology matrix" in (topology.said or "") else _ASK,
        evidence=(topology.said,) if topology.said else (),
    )


def _not_theirs(gpus: Sequence[contract.Gpu], topology: Topology) -> Iterator[Finding]:
    matrix = topology.matrix
    if matrix is None:
        return
    numbers = numbered(gpus, matrix)
    missing = [gpu.index for gpu in gpus if numbers.get(gpu.index) not in matrix.gpu_rows_present]
    if matrix.n_gpus == len(gpus) and not missing:
        return
    unread = f"; nothing in it is known to be of {_cards(missing)}" if missing else ""
    yield Finding(
        code="topology-mismatch",
        severity="warn",
        message=f"'nvidia-smi topo -m' shows {matrix.n_gpus} cards in {len(matrix.gpu_rows_present)} rows, "
        f"and the node has {len(gpus)}{unread}",
        remedy="Look at the cards that do not answer; then run discovery again.",
    )


def _from_the_kernel(gpus: Sequence[contract.Gpu], topology: Topology) -> Iterator[Finding]:
    """Told where the matrix is there and says less than the kernel."""
    if topology.matrix is None:
        return
    used = []
    for gpu in gpus:
        local = topology.local.get(gpu.pci_address or "")
        if local is not None and (local.numa_node is not None or local.cpus is not None):
            used.append(gpu.index)
    if used:
        yield Finding(
            code="topology-from-kernel",
            severity="info",
            message=f"'nvidia-smi topo -m' does not tell all NUMA nodes and CPUs of {_cards(used)}: the kernel does",
            remedy="Nothing. In a container, run discovery outside of it to see every CPU.",
        )


def _adapters(topology: Topology) -> Iterator[Finding]:
    matrix = topology.matrix
    if matrix is None:
        return
    shown = len(matrix.nic_columns)
    if matrix.nics_found is not None and matrix.nics_found > shown:
        yield Finding(
            code="topology-adapters",
            severity="info",
            message=f"'nvidia-smi topo -m' shows {shown} of {matrix.nics_found} network adapters: how near the others "
            "are is unknown",
            remedy="Remove virtual functions that nothing uses, if an adapter that matters is left out.",
        )
    elif shown and matrix.nic_legend is None and all(label.startswith("NIC") for label in matrix.nic_columns):
        yield Finding(
            code="topology-adapters",
            severity="info",
            message="'nvidia-smi topo -m' numbers the network adapters and does not name them: how near they are is "
            "unknown",
            remedy=_ASK,
        )


def _cards(indexes: Iterable[int]) -> str:
    listed = [str(index) for index in indexes]
    return f"card{'' if len(listed) == 1 else 's'} {', '.join(listed)}"
