# SPDX-License-Identifier: Apache-2.0
"""Checks of `gateway` and `fleet`: keys that mean something, listeners, ports and files that cannot collide."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from llmgw.catalog import codes
from llmgw.catalog.checks.references import dangling, repeated
from llmgw.catalog.ports import ports
from llmgw.catalog.problem import Problem
from llmgw.catalog.schema.document import Document
from llmgw.catalog.schema.gateway import Gateway
from llmgw.catalog.tree import Path

EPHEMERAL = (32_768, 60_999)
"""net.ipv4.ip_local_port_range as the kernel sets it (Documentation/networking/ip-sysctl.rst)."""
_LOWEST = 1024
_HIGHEST = 65_535
_EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_LISTEN: Path = ("gateway", "listen")
_ADMIN: Path = ("gateway", "admin_listen")
_TOKEN: Path = ("gateway", "admin_token_sha256")
_RANGE: Path = ("fleet", "port_range")
_LOG: Path = ("gateway", "access_log")
_KERNELS = ("/dev/", "/proc/", "/sys/")


def check_gateway(document: Document) -> Iterator[Problem]:
    """Problems of keys, listeners and files."""
    yield from _keys(document)
    yield from _files(document.gateway)
    gateway = document.gateway
    data, admin = _address(gateway.listen), _address(gateway.admin_listen)
    if data[1] == admin[1] and (data[0] == admin[0] or _wildcard(data[0]) or _wildcard(admin[0])):
        why = f"`admin_listen` takes the port {admin[1]} of `listen`: admin access needs a listener of its own"
        yield Problem(_ADMIN, codes.LISTENER, why, "Give it another port.", reads=(_LISTEN,), other=_LISTEN)
    if gateway.admin_token_sha256 is None and not _loopback(admin[0]):
        why = f"`admin_listen` {gateway.admin_listen} can be reached from other hosts, and no token is asked for"
        fix = "Set `admin_token_sha256`, or listen on 127.0.0.1."
        yield Problem(_ADMIN, codes.LISTENER, why, fix, reads=(_TOKEN,))
    if gateway.admin_token_sha256 == _EMPTY:
        yield Problem(_TOKEN, codes.API_KEY, "this is the hash of an empty token", "Hash the token itself.")
    first, last = ports(document.fleet.port_range)
    for path, (_, port) in ((_LISTEN, data), (_ADMIN, admin)):
        if first <= port <= last:
            why = f"the port {port} is among those that engines are given ({document.fleet.port_range})"
            yield Problem(path, codes.LISTENER, why, "Use another port, or move `fleet.port_range`.", reads=(_RANGE,))


def check_fleet(document: Document) -> Iterator[Problem]:
    """A port range that is none, or that the kernel or root has a claim on."""
    first, last = ports(document.fleet.port_range)
    low, high = EPHEMERAL
    fix = f"Use ports from {_LOWEST} to {low - 1}, such as `18000-18999`."
    if first > last or last > _HIGHEST:
        yield Problem(_RANGE, codes.PORTS, f"`{document.fleet.port_range}` is no range of ports", fix)
    elif first < _LOWEST:
        why = f"only root may listen on ports below {_LOWEST}, and engines do not run as root"
        yield Problem(_RANGE, codes.PORTS, why, fix)
    elif first <= high and last >= low:
        why = f"the kernel hands out ports {low}-{high} to outgoing connections: an engine may find its port taken"
        yield Problem(_RANGE, codes.PORTS, why, fix)


def _keys(document: Document) -> Iterator[Problem]:
    seen: dict[str, Path] = {}
    served = {service.served_name: name for name, service in document.services.items() if service.served_name}
    for name in sorted(document.gateway.keys):
        key = document.gateway.keys[name]
        path: Path = ("gateway", "keys", name)
        at: Path = (*path, "sha256")
        if key.sha256 == _EMPTY:
            yield Problem(at, codes.API_KEY, "this is the hash of an empty key", "Hash the key itself.")
        first = seen.setdefault(key.sha256, at)
        if first != at:
            why = f"the keys `{first[2]}` and `{name}` are the same key: whose limits hold is open"
            yield Problem(at, codes.API_KEY, why, "Give each client a key of its own.", reads=(first,), other=first)
        yield from repeated((*path, "services"), key.services, "the service")
        for number, service in enumerate(key.services):
            if service not in document.services and service in served:
                why = f"`{service}` is the served name of a service, and a key lists services by their own name"
                fix = f"Did you mean `{served[service]}`?"
                yield Problem((*path, "services", number), codes.REFERENCE, why, fix, reads=(("services",),))
            else:
                yield from dangling((*path, "services", number), "services", service, document.services)


def _files(gateway: Gateway) -> Iterator[Problem]:
    tls, log = gateway.tls, gateway.access_log
    # One file may hold both the certificate and its key.
    named: dict[Path, str] = {}
    if tls is not None:
        named = {("gateway", "tls", "certificate"): tls.certificate, ("gateway", "tls", "key"): tls.key}
    for path, name in (*named.items(), *([(_LOG, log)] if log else [])):
        if name.endswith(("/", "/..", "/.")):
            yield Problem(path, codes.PATH, f"`{name}` is a directory", "Write the path of a file.")
        elif f"{name}/".startswith(_KERNELS):
            why = f"`{name}` is a file of the kernel's, and no other can be put there"
            fix = "Use a path of its own, such as one below /etc/llmgw or /var/log/llmgw."
            yield Problem(path, codes.PATH, why, fix)
    for path, name in named.items():
        if name == log:
            why = f"the access log would be written into `{name}`, the file of `{'.'.join(map(str, path[1:]))}`"
            yield Problem(_LOG, codes.PATH, why, "Give it a file of its own.", reads=(path,), other=path)


def _address(listener: str) -> tuple[str, int]:
    host, _, port = listener.rpartition(":")
    return host.strip("[]"), int(port)


def _wildcard(host: str) -> bool:
    return host in ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound to


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
