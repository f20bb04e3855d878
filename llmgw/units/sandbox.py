# SPDX-License-Identifier: Apache-2.0
"""What a unit's processes may not do. docs/reference/units.md has the reason of every line and of every one that is
missing.
"""

from __future__ import annotations

from llmgw.units.caches import caches
from llmgw.units.devices import devices
from llmgw.units.member_unit import MemberUnit

_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - names of folders, not files of ours
_SYSTEM = (
    "ProtectSystem=strict",
    "ProtectHome=read-only",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "ProtectProc=invisible",
    "CapabilityBoundingSet=",
    "RemoveIPC=yes",
)
_BY_FILTER = (
    "NoNewPrivileges=yes",
    "LockPersonality=yes",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=~@clock @cpu-emulation @module @mount @obsolete @raw-io @reboot @swap",
    "SystemCallErrorNumber=EPERM",
    "UMask=0077",
)
"""What a process can ask of the kernel without privileges: a user's manager has it too."""


def sandbox(unit: MemberUnit) -> list[str]:
    """Lines of [Service].

    A user's manager cannot make mount namespaces, and one whose engine has cards gets no filter either: without it CUDA
    can make their device nodes by its setuid program, and nobody else would.
    """
    if unit.system:
        return [*_BY_FILTER, *_SYSTEM, *_temporary(unit), *caches(unit), *devices(unit)]
    return [] if unit.member.devices else list(_BY_FILTER)


def _temporary(unit: MemberUnit) -> list[str]:
    """A /tmp of its own, unless the command or a variable names a file below the real one."""
    below = tuple(f"{folder}/" for folder in _TEMPORARY)
    if any(word.startswith(below) for word in (*unit.launch.argv, *unit.launch.env.values())):
        return [f"ReadWritePaths={' '.join(_TEMPORARY)}"]
    return ["PrivateTmp=yes"]
