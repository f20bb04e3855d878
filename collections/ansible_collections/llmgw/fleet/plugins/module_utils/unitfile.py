# SPDX-License-Identifier: BSD-2-Clause
"""What a unit file says about itself: the [X-Llmgw] section, and the two digests (R5).

Private to llmgw. systemd ignores sections whose name starts with `X-` (systemd.unit(5)), so the unit carries its
identity with it. The process digest covers what the engine is started with; only its change restarts. The text digest
covers the whole file; its change alone rewrites the file in place. Modules and planner compute both here, so that they
can never disagree.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Dict, Iterable, NamedTuple, Optional, Tuple

SECTION = "X-Llmgw"
PREFIX = "llmgw-"
SUFFIX = ".service"
DIGEST_VARIABLE = "LLMGW_PROCESS_DIGEST"
_NAME = re.compile(r"^llmgw-(?P<service>[a-z0-9][a-z0-9-]*)\.(?P<number>[0-9]+)\.(?P<rank>[0-9]+)\.service$")
_MOST_DIGITS = 18  # what a unit says may be anything, and Python refuses numbers of thousands of digits
_CONTROL = re.compile("[\\x00-\\x1f\\x7f]+")  # facts say anything, and systemd ends a line at some of these
_TEXT_DIGEST = re.compile(r"^TextDigest=.*\n", re.MULTILINE)


class Header(NamedTuple):
    """The [X-Llmgw] section; a key the file lacks or that does not parse is None (lists: empty)."""

    replica: Optional[str] = None
    rank: Optional[int] = None
    members: Optional[int] = None
    profile: Optional[str] = None
    model: Optional[str] = None
    engine: Optional[str] = None
    engine_version: Optional[str] = None
    served_name: Optional[str] = None
    address: Optional[str] = None
    port: Optional[int] = None
    devices: Tuple[str, ...] = ()
    memory_min_bytes: Optional[int] = None
    domain: Optional[str] = None  # what joins it with the other members: the NVLink domain,
    fabric: Optional[str] = None  # the fabric, and its ports
    hcas: Tuple[str, ...] = ()
    socket_interface: Optional[str] = None
    numa_node: Optional[int] = None
    group: Optional[str] = None  # digest of what all members of a replica over several nodes were started with
    api_key: Optional[str] = None  # name of the secret that clients of the engine must bring
    start_timeout_s: Optional[int] = None
    ready_timeout_s: Optional[int] = None
    process_digest: Optional[str] = None
    text_digest: Optional[str] = None


_KEYS = {
    "Replica": "replica",
    "Rank": "rank",
    "Members": "members",
    "Profile": "profile",
    "Model": "model",
    "Engine": "engine",
    "EngineVersion": "engine_version",
    "ServedName": "served_name",
    "Address": "address",
    "Port": "port",
    "Devices": "devices",
    "MemoryMinBytes": "memory_min_bytes",
    "Domain": "domain",
    "Fabric": "fabric",
    "Hcas": "hcas",
    "SocketInterface": "socket_interface",
    "NumaNode": "numa_node",
    "Group": "group",
    "ApiKey": "api_key",
    "StartTimeoutS": "start_timeout_s",
    "ReadyTimeoutS": "ready_timeout_s",
    "ProcessDigest": "process_digest",
    "TextDigest": "text_digest",
}
_NUMBERS = ("rank", "members", "port", "memory_min_bytes", "numa_node", "start_timeout_s", "ready_timeout_s")
_LISTS = ("devices", "hcas")


def unit_name(service: str, number: int, rank: int) -> str:
    """The unit's file name: `llmgw-chat.0.0.service`."""
    return f"{PREFIX}{service}.{number}.{rank}{SUFFIX}"


def is_replica_unit(name: str) -> bool:
    """Whether a file name is that of a replica's unit (the gateway's own unit is not)."""
    return _NAME.match(name) is not None


def named(name: str) -> Header:
    """As much of a header as a unit's name tells: replica and rank. Empty for another name."""
    found = _NAME.match(name)
    if found is None:
        return Header()
    return Header(replica=f"{found.group('service')}/{found.group('number')}", rank=_value("rank", found.group("rank")))


def digest(value: Any) -> str:
    """`sha256:` and the hex digest of a JSON value in canonical form (sorted keys, no blanks, ASCII)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


def text_digest(text: str) -> str:
    """The digest of a unit's text without its own TextDigest line."""
    return "sha256:" + hashlib.sha256(_TEXT_DIGEST.sub("", text).encode("utf-8", "surrogateescape")).hexdigest()


def section(header: Header) -> str:
    """The [X-Llmgw] section of a header, with a trailing newline; keys that are None are left out.

    Control characters are left out too: no value becomes a line of its own.
    """
    lines = [f"[{SECTION}]"]
    for key, field in _KEYS.items():
        value = getattr(header, field)
        if value is None or value == ():
            continue
        text = " ".join(value) if field in _LISTS else str(value)
        lines.append(f"{key}={text if text.isprintable() else _CONTROL.sub('', text)}")
    return "\n".join(lines) + "\n"


def parse(text: str) -> Header:
    """The header of a unit's text. Never raises: what is not there or makes no sense stays unknown."""
    found: Dict[str, Any] = {}
    current: Optional[str] = None
    for line in _lines(text):
        if line.startswith("[") and line.endswith("]"):
            current = line[1:-1]
        elif current == SECTION and "=" in line:
            key, value = line.split("=", 1)
            field = _KEYS.get(key.strip())
            if field is not None:
                found[field] = _value(field, value.strip())
    return Header(**found)


def _lines(text: str) -> Iterable[str]:
    return (line.strip() for line in text.split("\n") if line.strip() and line.lstrip()[0] not in "#;")


def _value(field: str, value: str) -> Any:
    if field in _NUMBERS:
        return int(value) if value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS else None
    if field in _LISTS:
        return tuple(value.split())
    return value or None


def environment_digest(environ: bytes) -> Optional[str]:
    """The process digest in the bytes of /proc/PID/environ, or None."""
    wanted = DIGEST_VARIABLE.encode("ascii") + b"="
    values = [item[len(wanted) :] for item in environ.split(b"\0") if item.startswith(wanted)]
    return values[0].decode("ascii", "replace") if values else None
