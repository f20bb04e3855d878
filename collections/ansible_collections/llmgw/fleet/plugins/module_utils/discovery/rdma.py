# SPDX-License-Identifier: BSD-2-Clause
"""Looks at the machine's RDMA adapters (D8): files of /sys/class/infiniband and of their PCI functions, no command.

Private to llmgw. `rdma_build` makes ports of what is seen here. Each adapter is looked at within its own time, because
the files of one whose firmware has died can take a minute each.
"""

from __future__ import annotations

import re
import time
from functools import partial
from typing import Callable, Iterable, TypeVar

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding, RdmaPort
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import rdma_build
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.rdma_build import Adapter, Port
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host, within

CLASS = "/sys/class/infiniband"
_PCI = "/sys/bus/pci/devices"
_NET = "/sys/class/net"
_ADAPTER_S = 4.0
_VPD_S = 1.5
_VPD_BYTES = 4096
_FILE_BYTES = 4096
# A host may have hundreds of virtual functions; they are of use only where somebody declared them.
_FUNCTIONS = 16
_GID_GAP = 32
_GIDS = 16
_PKEY_GAP = 16
_PKEYS = 16
_NETDEVS = 8
_OF_ADAPTER = ("node_type", "node_guid", "hca_type", "board_id", "fw_ver", "parent")
_OF_PORT = ("link_layer", "state", "phys_state", "rate", "lid", "sm_lid")
_COUNTERS = ("link_downed", "symbol_error")
_T = TypeVar("_T")
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def read_ports(host: Host, budget_s: float) -> tuple[tuple[RdmaPort, ...] | None, tuple[Finding, ...]]:
    """All ports of the adapters, by device and number, and what kept some from being read.

    () for a machine without adapters: an island of one. None when there are some and nothing can be told of any.
    """
    deadline = time.monotonic() + budget_s
    names = host.list(CLASS)
    if names is None:
        if not host.exists(CLASS):
            return (), ()
        return None, (_unreadable(),)
    ordered = sorted(names, key=_natural)
    functions = {name for name in ordered if _is_function(host, name)}
    left_out = sorted(functions, key=_natural)[_FUNCTIONS:]
    seen: list[Adapter] = []
    silent: list[str] = []
    for name in ordered:
        if name in left_out:
            continue
        try:
            seen.append(_timely(deadline, _ADAPTER_S, partial(_adapter, host, name, is_function=name in functions)))
        except TimeoutError:
            silent.append(name)
    adapters = _with_vpd(host, deadline, seen)
    ports = tuple(port for adapter in adapters for port in rdma_build.ports(adapter))
    return (None if silent and not seen else ports), (*_silent(silent), *_left_out(left_out))


def _timely(deadline: float, at_most_s: float, look: Callable[[], _T]) -> _T:
    """What `look` returns; TimeoutError when it takes too long, or when the time is over."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return within(min(at_most_s, left), look)


def _adapter(host: Host, name: str, *, is_function: bool) -> Adapter:
    folder = f"{CLASS}/{name}"
    address = _pci_address(host, name)
    pci = f"{_PCI}/{address}"
    link = host.readlink(f"{pci}/driver") if address else None
    return Adapter(
        name=name,
        files=_files(host, folder, _OF_ADAPTER),
        pci_address=address,
        pci_files=_files(host, pci, ("numa_node", "vendor", "device")) if address else {},
        driver=link.rsplit("/", 1)[-1] if link else None,
        virtual_function=is_function,
        has_device=host.readlink(f"{folder}/device") is not None,
        ports=tuple(
            _port(host, f"{folder}/ports/{number}", number, pci if address else None, bare=is_function)
            for number in _numbers(host.list(f"{folder}/ports"))
        ),
    )


def _port(host: Host, folder: str, number: int, pci: str | None, *, bare: bool) -> Port:
    files = _files(host, folder, _OF_PORT)
    if bare:
        return Port(number, files, netdevs=_pci_netdevs(host, pci, number))
    gids = _gids(host, folder)
    named = tuple(dict.fromkeys(netdev for _index, _gid, _type, netdev in gids or () if netdev))[:_NETDEVS]
    netdevs = named or _pci_netdevs(host, pci, number)
    return Port(
        number=number,
        files={**files, **_files(host, f"{folder}/counters", _COUNTERS)},
        gids=gids,
        pkeys=_pkeys(host, folder),
        netdevs=netdevs,
        mtu=_text(host, f"{_NET}/{netdevs[0]}/mtu") if netdevs else None,
    )


def _gids(host: Host, folder: str) -> tuple[tuple[int, str, str | None, str | None], ...] | None:
    """Index, GID, type and interface of each entry in use; indexes have gaps. None when there is no table to read."""
    names = host.list(f"{folder}/gids")
    if names is None:
        return None
    found: list[tuple[int, str, str | None, str | None]] = []
    empty = 0
    for index in _numbers(names):
        if empty >= _GID_GAP or len(found) >= _GIDS:
            break
        gid = _text(host, f"{folder}/gids/{index}") or ""
        if not gid.strip("0:"):
            empty += 1
            continue
        empty = 0
        attributes = f"{folder}/gid_attrs"
        kind = _text(host, f"{attributes}/types/{index}")
        found.append((index, gid, kind, _text(host, f"{attributes}/ndevs/{index}")))
    return tuple(found)


def _pkeys(host: Host, folder: str) -> tuple[str, ...]:
    found: list[str] = []
    empty = 0
    for index in _numbers(host.list(f"{folder}/pkeys")):
        if empty >= _PKEY_GAP or len(found) >= _PKEYS:
            break
        pkey = _text(host, f"{folder}/pkeys/{index}") or ""
        empty = 0 if pkey.strip("0x") else empty + 1
        found.extend([pkey] if pkey.strip("0x") else [])
    return tuple(found)


def _pci_netdevs(host: Host, pci: str | None, number: int) -> tuple[str, ...]:
    """Interfaces of the PCI function that are this port's: those of a two-port function say which is theirs."""
    names = (host.list(f"{pci}/net") or ())[:_NETDEVS] if pci else ()
    if len(names) <= 1:
        return names
    own = tuple(name for name in names if _text(host, f"{_NET}/{name}/dev_port") == str(number - 1))
    return own or names


def _with_vpd(host: Host, deadline: float, adapters: Iterable[Adapter]) -> tuple[Adapter, ...]:
    """The adapters, with the VPD of those that might be a way to NVSwitches. One that hangs ends the looking."""
    found: list[Adapter] = []
    answering = True
    for adapter in adapters:
        vpd: bytes | None = None
        if answering and rdma_build.may_manage_switches(adapter):
            path = f"{_PCI}/{adapter.pci_address}/vpd"
            try:
                vpd = _timely(deadline, _VPD_S, partial(host.read, path, _VPD_BYTES))
            except TimeoutError:
                answering = False
        found.append(adapter._replace(vpd=vpd))
    return tuple(found)


def _pci_address(host: Host, name: str) -> str | None:
    """Address of the adapter's PCI function; a sub-function's is that of the function which it is part of."""
    link = host.readlink(f"{CLASS}/{name}/device")
    if link is None:
        return None
    last = link.rsplit("/", 1)[-1].lower()
    if _PCI_ADDRESS.fullmatch(last):
        return last
    above = [part.lower() for part in host.realpath(f"{CLASS}/{name}/device").split("/")]
    return next((part for part in reversed(above) if _PCI_ADDRESS.fullmatch(part)), None)


def _is_function(host: Host, name: str) -> bool:
    """Whether an adapter is a virtual function or a sub-function."""
    link = host.readlink(f"{CLASS}/{name}/device") or ""
    address = _pci_address(host, name)
    is_part = bool(link) and not _PCI_ADDRESS.fullmatch(link.rsplit("/", 1)[-1].lower())
    return is_part or (address is not None and host.readlink(f"{_PCI}/{address}/physfn") is not None)


def _files(host: Host, folder: str, names: Iterable[str]) -> dict[str, str]:
    texts = ((name, _text(host, f"{folder}/{name}")) for name in names)
    return {name: text for name, text in texts if text is not None}


def _text(host: Host, path: str) -> str | None:
    content = host.read(path, _FILE_BYTES)
    return None if content is None else content.decode("utf-8", "replace").strip()


def _numbers(names: Iterable[str] | None) -> list[int]:
    return sorted(int(name) for name in names or () if re.fullmatch(r"[0-9]{1,5}", name))


def _natural(name: str) -> tuple[object, ...]:
    """A key that sorts mlx5_2 before mlx5_10; every second part is a number."""
    parts = re.split(r"([0-9]{1,9})", name)
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts))


def _unreadable() -> Finding:
    return Finding(
        code="rdma-unreadable",
        severity="warn",
        message=f"{CLASS} is there and cannot be listed: the InfiniBand and RoCE adapters are unknown",
        remedy=f"Run discovery where {CLASS} is visible (a sandbox or a container may hide it).",
    )


def _silent(names: Iterable[str]) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            code="rdma-adapter-silent",
            severity="warn",
            message=f"adapter {name} did not answer in time: its ports are unknown",
            remedy="Look for mlx5 health or timeout messages in the kernel log; reset the adapter or reboot the node.",
            subject=name,
        )
        for name in names
    )


def _left_out(names: list[str]) -> tuple[Finding, ...]:
    if not names:
        return ()
    finding = Finding(
        code="rdma-functions-left-out",
        severity="info",
        message=f"{len(names)} virtual functions of adapters are not among the facts; the first {_FUNCTIONS} are",
        evidence=(f"{names[0]} to {names[-1]}",),
    )
    return (finding,)
