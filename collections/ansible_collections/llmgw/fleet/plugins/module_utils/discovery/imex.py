# SPDX-License-Identifier: BSD-2-Clause
"""Reads the node's IMEX service (D7): its state, the domain that it shows, its own node list, and the channels.

Private to llmgw. A machine without the service, its tool and the driver's channels costs three looks at files.
"""

from __future__ import annotations

import time
from typing import NamedTuple, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding, Imex, ImexNode
from ansible_collections.llmgw.fleet.plugins.module_utils.host import UNUSABLE, Host, Result
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import (
    imex,
    imex_addresses,
    imex_config,
    imex_dev,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

CONTROL = "nvidia-imex-ctl"
SERVICE = "nvidia-imex.service"
CHANNELS = f"/dev/{imex_dev.CHANNELS}"
_CONFIG = "/etc/nvidia-imex/config.cfg"
_NODE_LIST = "/etc/nvidia-imex/nodes_config.cfg"
_UNIT_FOLDERS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
_SYSTEMCTL_S = 5.0
_CONTROL_S = 8.0
# The driver can make two thousand channels; which there are matters for the first few.
_CHANNELS_KEPT = 16
_QUOTE = 200


class Seen(NamedTuple):
    """What the node says about IMEX, before it is put together; `own` are its addresses and host names."""

    installed: bool
    service_state: str | None
    devices: imex_dev.ImexDevices
    domain: imex.ImexReading
    configured: tuple[str, ...] | None
    own: frozenset[str]


def read_imex(host: Host, budget_s: float) -> tuple[Imex | None, tuple[Finding, ...]]:
    """The service's facts within `budget_s` seconds, and what kept them from being read; None without any IMEX."""
    deadline = time.monotonic() + budget_s
    installed = any(host.exists(f"{folder}/{SERVICE}") for folder in _UNIT_FOLDERS)
    has_control = host.which(CONTROL) is not None
    devices = _devices(host)
    if not installed and not has_control and devices.imex_major is None and not devices.channels:
        return None, ()
    findings: tuple[Finding, ...] = ()
    state = _service_state(host, deadline) if installed else None
    domain = imex.ImexReading()
    # Of a daemon that is known not to run the tool can only say so, after a timeout for each node of the list.
    if has_control and state in {None, "active", "activating", "reloading"}:
        domain, findings = _domain(host, deadline)
    seen = Seen(
        installed=installed or has_control,
        service_state=state,
        devices=devices,
        domain=domain,
        configured=_configured(host),
        own=_own(host) if domain.nodes else frozenset(),
    )
    return build(seen), findings


def build(seen: Seen) -> Imex:
    """The facts of what was seen."""
    listed, local = _find_own(seen.domain.nodes, seen.own)
    size = seen.domain.matrix_size or (0, 0)
    return Imex(
        active=None if seen.service_state is None else seen.service_state == "active",
        domain_state=seen.domain.domain_state,
        nodes=tuple(
            ImexNode(
                address=node.ip,
                status=node.status,
                local=None if listed is None else node.index == local,
                version=node.version,
                hostname=node.hostname,
            )
            for node in seen.domain.nodes
        ),
        channels=seen.devices.channels[:_CHANNELS_KEPT],
        configured=seen.configured,
        unconnected=seen.domain.non_connected_count if size[0] and size[1] else None,
        installed=seen.installed,
        service_state=seen.service_state,
        daemon_status=seen.domain.daemon_status or _status_of(seen.domain.nodes, local),
        listed=listed,
        channel_count=len(seen.devices.channels),
        channel_major=seen.devices.imex_major,
    )


def _find_own(nodes: Sequence[imex.ListedNode], own: frozenset[str]) -> tuple[bool | None, int | None]:
    """Whether this node is listed, and under which index; None when names in the list leave it open."""
    if not nodes:
        return None, None
    marked = [node.index for node in nodes if node.local]
    named = [node.index for node in nodes if _forms(node.ip) & own or _forms(node.hostname or "") & own]
    if marked or named:
        return True, (marked or named)[0]
    all_addresses = all(imex_addresses.plain(node.ip) is not None for node in nodes)
    return (False if all_addresses and own else None), None


def _forms(name: str) -> frozenset[str]:
    """An address in its plain form, or a host name with and without its domain."""
    address = imex_addresses.plain(name)
    forms = {address} if address is not None else {name.lower(), name.lower().partition(".")[0]}
    return frozenset(form for form in forms if form)


def _status_of(nodes: Sequence[imex.ListedNode], index: int | None) -> str | None:
    return next((node.status for node in nodes if node.index == index), None)


def _devices(host: Host) -> imex_dev.ImexDevices:
    registered = host.read("/proc/devices") or b""
    names = host.list(CHANNELS) or ()
    try:
        return imex_dev.read("\n".join((registered.decode("utf-8", "replace"), *names)))
    except Unreadable:
        return imex_dev.ImexDevices()


def _service_state(host: Host, deadline: float) -> str | None:
    """The service manager's word for the service; None when it cannot be asked."""
    if host.which("systemctl") is None:
        return None
    words = _run(host, deadline, _SYSTEMCTL_S, "systemctl", "is-active", SERVICE).stdout.split()
    known = {"active", "reloading", "inactive", "failed", "activating", "deactivating", "maintenance"}
    return words[0] if words and words[0] in known else None


def _domain(host: Host, deadline: float) -> tuple[imex.ImexReading, tuple[Finding, ...]]:
    """What the daemon shows: the whole domain, else its own status alone with the reason."""
    answers: list[Result] = []
    for arguments in (("-N", "-j"), ("-N",)):
        answers.append(_run(host, deadline, _CONTROL_S, CONTROL, *arguments))
        try:
            found = imex.read(answers[-1].stdout)
        except Unreadable:
            continue
        if found.daemon_status is None:
            return found, ()
    try:
        own = imex.read(_run(host, deadline, _CONTROL_S, CONTROL, "-q").stdout)
    except Unreadable:
        own = imex.ImexReading()
    said = " ".join((answers[-1].stderr or answers[-1].stdout or "").split())[:_QUOTE]
    finding = Finding(
        code="imex-unreadable",
        severity="warn",
        message=f"{CONTROL} -N did not show the IMEX domain: which nodes NVLink joins to this one is unknown",
        remedy="Run it on the node. It needs the command service (IMEX_CMD_ENABLED=1 in config.cfg) and its node list.",
        evidence=(f"exit status {answers[-1].rc}", *((said,) if said else ())),
    )
    return imex.ImexReading(daemon_status=own.daemon_status), (finding,)


def _configured(host: Host) -> tuple[str, ...] | None:
    config = host.read(_CONFIG) or b""
    path = imex_config.node_list_path(config.decode("utf-8", "replace")) or _NODE_LIST
    content = host.read(path)
    return None if content is None else imex_config.listed_nodes(content.decode("utf-8", "replace"))


def _own(host: Host) -> frozenset[str]:
    """This node's addresses and host names, as `_forms` writes them."""
    four = (host.read("/proc/net/fib_trie") or b"").decode("ascii", "replace")
    six = (host.read("/proc/net/if_inet6") or b"").decode("ascii", "replace")
    name = (host.read("/proc/sys/kernel/hostname") or b"").decode("utf-8", "replace").strip()
    names = frozenset() if name in {"", "localhost"} else _forms(name)
    return imex_addresses.own_ipv4(four) | imex_addresses.own_ipv6(six) | names


def _run(host: Host, deadline: float, at_most_s: float, *argv: str) -> Result:
    left = deadline - time.monotonic()
    if left <= 0:
        return Result(UNUSABLE, "", "no time left", timed_out=True)
    return host.run(argv, min(at_most_s, left))
