# SPDX-License-Identifier: Apache-2.0
"""Ansible's view of a lab: how its hosts are reached over ssh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

# Host keys change with every lab, and a host that was cut off or frozen must fail within seconds instead of hanging.
SSH_OPTIONS = (
    *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"),
    *("-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=2"),
)


def document(
    addresses: Mapping[str, str],
    key: Path,
    groups: Mapping[str, Sequence[str]],
    host_vars: Mapping[str, Mapping[str, object]],
) -> dict[str, object]:
    """An Ansible YAML inventory of the hosts in `addresses`, in `groups`, each with its own variables."""
    hosts = {name: {"ansible_host": address, **host_vars.get(name, {})} for name, address in addresses.items()}
    members: dict[str, object] = {group: {"hosts": dict.fromkeys(names)} for group, names in groups.items()}
    variables = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(key),
        "ansible_ssh_common_args": " ".join(SSH_OPTIONS),
        "ansible_ssh_args": "-o ControlMaster=auto -o ControlPersist=60s",
        # Labs use the same addresses: the sockets of one must not lead into another.
        "ansible_control_path_dir": str(key.with_name("cp")),
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    return {"all": {"hosts": hosts, "vars": variables, "children": members}}
