# SPDX-License-Identifier: Apache-2.0
"""Listeners: `HOST:PORT` read, bound, and named again as URLs."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

from llmgw.errors import LlmgwError

MOST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. Port 0: any free one."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, what: str) -> Address:
    """`HOST:PORT` or `[IPV6]:PORT`. Raises LlmgwError `listen-address`."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    number = int(port) if port.isascii() and port.isdigit() else MOST_PORT + 1
    if not colon or not bare or number > MOST_PORT or (":" in bare and bare == host):
        raise LlmgwError(
            "listen-address", f"{what} is {text!r}, not HOST:PORT", fix="write for instance 0.0.0.0:8080 or [::1]:8080"
        )
    return Address(bare, number)


def bind_shared(address: Address, what: str, number: int) -> list[socket.socket]:
    """That many bound sockets at one address, among which the system spreads connections (SO_REUSEPORT).

    Raises LlmgwError `listen-failed`, also where another gateway of the same user shares the address already: the
    system alone would let both have it, and each get a part of the clients.
    """
    first = bind(address, what)
    found = Address(address.host, first.getsockname()[1])
    first.close()
    return [bind(found, what, shared=True) for _number in range(number)]


def bind(address: Address, what: str, *, shared: bool = False) -> socket.socket:
    """A bound socket. Raises LlmgwError `listen-failed` with the system's reason."""
    try:
        family, kind, protocol, _name, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind(place)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise LlmgwError(
            "listen-failed",
            f"{what} cannot listen on {address}: {error.strerror or error}",
            fix="free that port, or name another by the option or in the catalog's gateway section",
        ) from error
    listener.settimeout(0)
    return listener


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    """Base URL under which this machine reaches a bound socket: a wildcard address is named as loopback."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return f"{scheme}://{Address(host, port)}"
