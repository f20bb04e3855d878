# SPDX-License-Identifier: Apache-2.0
"""Errors for names that are not there, with the names that may be meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from llmgw.catalog.problem import listed
from llmgw.errors import LlmgwError
from llmgw.model.node import FleetSnapshot, Node
from llmgw.model.replica import Catalog, ServiceSpec

_NEAR = 3


def no_such(code: str, why: str, name: str, known: Iterable[str], *, nothing: str) -> LlmgwError:
    """The error for a name that is none of `known`; `nothing`: what to do where there is no name at all."""
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, _NEAR, cutoff=0.6)
    if near:
        return LlmgwError(code, why, fix=f"did you mean {' or '.join(near)}?")
    return LlmgwError(code, why, fix=f"there are {listed(names)}" if names else nothing)


def node_of(fleet: FleetSnapshot, name: str) -> Node:
    """The node of that name. Raises LlmgwError `unknown-host`."""
    found = fleet.node(name)
    if found is None:
        names = [node.name for node in fleet.nodes]
        why = f"the inventory has no node {_said(name)}"
        raise no_such("unknown-host", why, name, names, nothing="nodes are the hosts of the inventory's group fleet")
    return found


def _said(name: str) -> str:
    return name if name.strip() else "with an empty name"


def service_of(catalog: Catalog, name: str) -> ServiceSpec:
    """The service of that name, else the one that clients call so. Raises LlmgwError `unknown-service`."""
    found = next((service for service in catalog.services if service.name == name), None)
    found = found or next((one for one in catalog.services if name in (one.served_name, *one.aliases)), None)
    if found is None:
        names = {called for one in catalog.services for called in (one.name, *one.aliases)}
        why = f"the catalog has no service {_said(name)}"
        raise no_such("unknown-service", why, name, names, nothing="the catalog has no services")
    return found
