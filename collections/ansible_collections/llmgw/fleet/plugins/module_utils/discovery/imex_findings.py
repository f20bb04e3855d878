# SPDX-License-Identifier: BSD-2-Clause
"""What keeps a node's cards from being joined to those of other nodes, from its facts (D7). Private to llmgw and pure.

Nothing here blocks: facts of a fabric keep new replicas away and move none (P1b), and a node that NVLink does not join
to others serves what fits on it.
"""

from __future__ import annotations

from typing import Iterable, Iterator

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding, Gpu, Imex
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.imex import CHANNELS, SERVICE
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import imex_addresses

_UP = "UP"
_READY = "READY"
_SHOWN = 8


def judge(imex: Imex | None, gpus: Iterable[Gpu] | None) -> tuple[Finding, ...]:
    """All findings about a node's IMEX. Cards that are known to be in no NVLink domain have no use for it."""
    joined = _is_joined(gpus)
    if joined is False:
        return ()
    found: list[Finding] = []
    if joined and (imex is None or (imex.active is not True and imex.domain_state is None)):
        found.extend(_down(imex))
    if imex is None:
        return tuple(found)
    found.extend(_domain(imex))
    found.extend(_list(imex))
    if joined or imex.active:
        found.extend(_channel(imex))
    return tuple(found)


def _is_joined(gpus: Iterable[Gpu] | None) -> bool | None:
    """Whether a card is in an NVLink domain, which its ClusterUUID tells; None when no card says."""
    fabrics = [gpu.fabric for gpu in gpus or () if gpu.fabric is not None]
    uuids = [fabric.cluster_uuid for fabric in fabrics if fabric.cluster_uuid is not None]
    if any(uuid.strip("0-") for uuid in uuids):
        return True
    if gpus is None or (fabrics and len(uuids) < len(fabrics)):
        return None
    return False


def _down(imex: Imex | None) -> Iterator[Finding]:
    if imex is None or not imex.installed:
        yield Finding(
            code="imex-down",
            severity="warn",
            message="the cards are in an NVLink domain and IMEX is not installed: no replica can span nodes",
            remedy="Install nvidia-imex of the driver's version, or serve nothing across nodes here.",
        )
    elif imex.active is False:
        yield Finding(
            code="imex-down",
            severity="warn",
            message=f"the cards are in an NVLink domain and {SERVICE} is {imex.service_state}",
            remedy=f"systemctl start {SERVICE}; its reason is in the journal and in /var/log/nvidia-imex.log. "
            "Where a job scheduler starts IMEX itself this is its affair.",
        )


def _domain(imex: Imex) -> Iterator[Finding]:
    if imex.domain_state is None or imex.domain_state == _UP:
        return
    waiting = [f"{node.address} {node.status or 'unknown'}" for node in imex.nodes if node.status != _READY]
    more = [f"and {len(waiting) - _SHOWN} more"] if len(waiting) > _SHOWN else []
    apart = "" if not imex.unconnected else f", {imex.unconnected} connections are not up"
    yield Finding(
        code="imex-degraded",
        severity="warn",
        message=f"the IMEX domain is {imex.domain_state}: {len(waiting)} of {len(imex.nodes)} nodes not ready{apart}",
        remedy="Look at nvidia-imex on the nodes that are not ready, or take them off the list on every node.",
        evidence=(*waiting[:_SHOWN], *more),
    )


def _list(imex: Imex) -> Iterator[Finding]:
    if imex.listed is False:
        yield Finding(
            code="imex-not-listed",
            severity="warn",
            message="the node list of IMEX has none of this node's addresses",
            remedy="Put it on the list (nodes_config.cfg, the same on every node of the domain); restart nvidia-imex.",
            evidence=tuple(node.address for node in imex.nodes[:_SHOWN]),
        )
    if imex.configured is None or not imex.nodes:
        return
    configured = {_plain(name) for name in imex.configured}
    shown = {_plain(node.address) for node in imex.nodes}
    if configured == shown:
        return
    added, gone = sorted(configured - shown), sorted(shown - configured)
    yield Finding(
        code="imex-config-mismatch",
        severity="warn",
        message="the node list of IMEX was changed after the daemon read it",
        remedy="Make nodes_config.cfg identical on every node of the domain, then restart nvidia-imex on all of them.",
        evidence=(
            *(f"{name} is in the file only" for name in added[:_SHOWN]),
            *(f"{name} is in the daemon's list only" for name in gone[:_SHOWN]),
        ),
    )


def _channel(imex: Imex) -> Iterator[Finding]:
    if imex.channels is None or 0 in imex.channels:
        return
    made = (
        f"or once, until the next reboot: mknod {CHANNELS}/channel0 c {imex.channel_major} 0"
        if imex.channel_major is not None
        else f"the driver shows no {CHANNELS.rsplit('/', 1)[-1]} in /proc/devices: load it first"
    )
    yield Finding(
        code="imex-channel-missing",
        severity="warn",
        message=f"there is no {CHANNELS}/channel0: no process can share memory with cards of other nodes",
        remedy=f"Load module nvidia with NVreg_CreateImexChannel0=1 (in /etc/modprobe.d and the initramfs), {made}.",
    )


def _plain(name: str) -> str:
    return imex_addresses.plain(name) or name.lower()
