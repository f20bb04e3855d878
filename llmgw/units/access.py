# SPDX-License-Identifier: Apache-2.0
"""From where the catalog lets engines be reached, for all units of a fleet, and where that cannot be had."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from llmgw.model.node import FleetSnapshot
from llmgw.model.replica import GATEWAYS, Catalog


def access_of(catalog: Catalog, fleet: FleetSnapshot) -> tuple[str, ...] | None:
    """Networks and addresses from which engines may be reached beside their own replica's nodes; None: from anywhere,
    also where a gateway's address is unknown, for shutting it out would be worse.
    """
    wanted = set(catalog.fleet.engines_reachable_from)
    if not wanted:
        return None
    if GATEWAYS in wanted:
        addresses = {gateway.address for gateway in fleet.gateways}
        if None in addresses:
            return None
        wanted = (wanted - {GATEWAYS}) | {address for address in addresses if address is not None}
    return tuple(sorted(wanted))


def open_engines(catalog: Catalog, fleet: FleetSnapshot, access: tuple[str, ...] | None) -> Iterator[str]:
    """Sentences on engines that anyone may reach although the catalog says otherwise. `access`: what `access_of`
    gave.
    """
    if not catalog.fleet.engines_reachable_from:
        return
    names = [one for one in access or () if not _is_network(one)]
    if access is None or names:
        which = f" ({', '.join(names)})" if names else ""
        yield (
            f"fleet.engines_reachable_from restricts nothing: a gateway's address is a name{which}, and the kernel"
            " knows addresses only. Set ansible_host or llmgw_address of the gateway hosts to addresses"
        )
        return
    users = [node.name for node in fleet.nodes if node.settings.scope != "system"]
    if users:
        yield f"fleet.engines_reachable_from restricts nothing on {', '.join(users)}: only scope `system` can"


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True
