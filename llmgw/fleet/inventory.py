# SPDX-License-Identifier: Apache-2.0
"""The Ansible inventory as hosts with their variables: read by `ansible-inventory`, so that every plugin and dynamic
source works.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmgw.errors import LlmgwError
from llmgw.fleet.hosts import GATEWAY_GROUP, NODE_GROUP, TEMPLATE_FIX, Host, holds_template, relevant
from llmgw.fleet.unread import unread
from llmgw.nodekit import contract

_TIMEOUT_S = 60
PLAYBOOKS = Path(contract.__file__).resolve().parents[3] / "playbooks"
"""Where the playbooks of this llmgw's own collection lie."""
JUDGED_LATER = ("llmgw_fabrics",)
"""Variables that the fleet can be shown without: who needs them refuses a template in them (`fabric_settings`)."""


def read_inventory(path: Path) -> tuple[Host, ...]:
    """The hosts of the groups `fleet` and `gateway`, sorted by name.

    Raises LlmgwError `inventory-missing`, `inventory-broken` (with what Ansible said) or `inventory-template` for a
    variable that only a playbook run can resolve.
    """
    if not path.exists():
        raise LlmgwError(
            "inventory-missing",
            f"there is no inventory at {path}",
            fix="name one with --inventory, or write a starter with `llmgw init`",
        )
    document = _ask_ansible(path)
    nodes = _members(document, NODE_GROUP)
    gateways = _members(document, GATEWAY_GROUP)
    every_variable: Mapping[str, Mapping[str, Any]] = document.get("_meta", {}).get("hostvars", {})
    hosts = []
    for name in sorted(nodes | gateways):
        every = every_variable.get(name, {})
        variables = relevant(every)
        _refuse_templates(name, variables)
        hosts.append(Host(name, name in nodes, name in gateways, variables, unread(every)))
    return tuple(hosts)


def _ask_ansible(path: Path) -> dict[str, Any]:
    # Variables beside the playbooks that llmgw runs count for these, and those in the current folder do not.
    beside = ["--playbook-dir", str(PLAYBOOKS)]
    command = [str(Path(sys.executable).parent / "ansible-inventory"), "-i", str(path), *beside, "--list"]
    environment = os.environ | {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_INVENTORY_UNPARSED_FAILED": "true"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=environment)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LlmgwError("inventory-broken", f"ansible-inventory did not answer: {error}", where=str(path)) from error
    if done.returncode != 0:
        said = " ".join(done.stderr.split())[-600:] or "no message"
        raise LlmgwError(
            "inventory-broken",
            f"Ansible cannot read the inventory: {said}",
            where=str(path),
            fix=f"try `ansible-inventory -i {path} --list`",
        )
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise LlmgwError("inventory-broken", f"ansible-inventory answered no JSON: {error}", where=str(path)) from error
    return document


def _members(document: Mapping[str, Any], group: str) -> set[str]:
    entry = document.get(group, {})
    found = set(entry.get("hosts", ()))
    for child in entry.get("children", ()):
        found |= _members(document, child)
    return found


def _refuse_templates(host: str, variables: Mapping[str, Any]) -> None:
    for name, value in variables.items():
        if name not in JUDGED_LATER and holds_template(value):
            why = f"{name} of {host} is a template, and only a playbook run can resolve it"
            raise LlmgwError("inventory-template", why, fix=TEMPLATE_FIX)
