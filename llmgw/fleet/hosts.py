# SPDX-License-Identifier: Apache-2.0
"""Inventory hosts and what the facts cache holds of them, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llmgw.errors import LlmgwError
from llmgw.nodekit import contract

NODE_GROUP = "fleet"
GATEWAY_GROUP = "gateway"
TEMPLATE_MARKS = ("{{", "{%")
TEMPLATE_FIX = "write its value plainly, wherever it is: in the inventory, group_vars or host_vars"
VARIABLES = (
    "ansible_host",
    "llmgw_address",
    "llmgw_cordoned",
    "llmgw_drained",
    "llmgw_engine_commands",
    "llmgw_engine_user",
    "llmgw_fabrics",
    "llmgw_labels",
    "llmgw_lost",
    "llmgw_model_dirs",
    "llmgw_scope",
    "llmgw_socket_interface",
    "llmgw_state_dir",
)


@dataclass(frozen=True, slots=True)
class Host:
    """One inventory host: whether it is a node, a gateway host, or both, and the variables that llmgw reads."""

    name: str
    node: bool
    gateway: bool
    variables: dict[str, Any] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    """Names of its variables that look like llmgw's and that nothing reads."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What the cache holds of one host. `error`: the newest file is unreadable, `facts` are then the previous ones or
    None.
    """

    facts: contract.NodeFacts | None = None
    error: LlmgwError | None = None
    unreachable_since: float | None = None
    """When it was first tried in vain, since it last answered; Unix seconds."""
    unreachable_reason: str | None = None
    unreachable_last: float | None = None
    """When it was last tried in vain: how long it is known to be away, whatever time has passed since."""


def holds_template(value: Any) -> bool:
    """Whether a variable's value, or anything in it, is a template that only a playbook run can resolve."""
    ahead, seen = [value], set()
    while ahead:
        one = ahead.pop()
        if isinstance(one, str) and any(mark in one for mark in TEMPLATE_MARKS):
            return True
        if isinstance(one, (dict, list, tuple)) and id(one) not in seen:  # an anchor of YAML may hold itself
            seen.add(id(one))
            ahead += [*one, *one.values()] if isinstance(one, dict) else one
    return False


def relevant(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that shape a plan. All others, secrets among them, are never looked at (R10)."""
    return {name: variables[name] for name in VARIABLES if name in variables}
