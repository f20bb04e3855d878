# SPDX-License-Identifier: BSD-2-Clause
"""Finds in a recording what has no shape of its own to be known by: names of hosts and users, serial numbers (D16).

Private to llmgw and pure. They are found where it is plain what they are, to be replaced wherever they stand.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, FrozenSet, Iterable, Iterator, NamedTuple, Set, Tuple

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.capture.recording import Recording

_HOST_FILES = ("/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", "/etc/hostname")
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}[A-Za-z0-9])?(?:\.[A-Za-z0-9-]{1,63}){0,8}"
_HOSTS = (
    re.compile(rf"host[ _-]?name\"?[ \t]*[:=][ \t]*\"?(?P<name>{_NAME})", re.IGNORECASE),
    re.compile(rf" - (?:nfs4?|cifs|smb3|ceph|fuse\.\w+|glusterfs|lustre|beegfs\w*) (?://)?(?P<name>{_NAME})[:@/]"),
    re.compile(rf"://(?P<name>{_NAME})[:/]"),
    # Descriptions of nodes in an InfiniBand subnet: 'n1 mlx5_0', 'MF0;switch-1:MQM9700/U1'.
    re.compile(rf"'(?P<name>{_NAME}) (?:HCA-|mlx)"),
    re.compile(rf"MF0;(?P<name>{_NAME}):"),
)
USER = r"[^/\s\"'<>:,;]+"
_USERS = (re.compile(rf"/home/(?P<name>{USER})"),)
_SERIALS = (
    re.compile(r"serial[a-z_ ]{0,20}\"?[ \t]*[:=>][ \t]*\"?(?P<name>[a-z0-9][a-z0-9._-]{5,63})", re.IGNORECASE),
)
_ADDRESS = re.compile(r"[0-9.]+|[0-9A-Fa-f:]*:[0-9A-Fa-f:]*")
_SHORTEST = 2
# Words of tools, kernels and this program: as names of hosts they would be replaced where they mean something else.
_ORDINARY = (
    "localhost localdomain local lan internal none unknown true false yes no on off up down ok not active inactive",
    "failed running dead ready init disabled enabled supported full healthy unhealthy degraded completed success",
    "error null link linux debian ubuntu rhel centos rocky fedora almalinux suse nvidia mellanox gpu gpus cpu node",
    "nodes host system user root home srv models model data cache blobs snapshots refs hub engine engines gateway",
    "vllm sglang llama sim llmgw fleet http https tcp infiniband ethernet roce port ports server service usr bin",
    "lib etc var opt run tmp dev mnt www com org net io co huggingface github python python3 version name state",
    "status size type file files index a2 a10 a16 a30 a40 a100 a800 b100 b200 b300 gb10 gb200 gb300 gh200 h20 h100",
    "h200 h800 l2 l4 l20 l40 l40s p100 t4 v100",
)
_WORDS = frozenset(word for line in _ORDINARY for word in line.split())


class Identities(NamedTuple):
    """Names of hosts and of their domains, of users, and serial numbers; the longest first."""

    hosts: Tuple[str, ...]
    users: Tuple[str, ...]
    serials: Tuple[str, ...]


def find(recording: Recording, names: Iterable[str] = (), called: str = "") -> Identities:
    """What a recording tells, with the `names` of hosts that the caller knows and what the machine is `called`."""
    texts = tuple(_texts(recording))
    hosts = {*_hosts(recording, texts), *(name for name in names if any(name in text for text in texts)), called}
    users = _found(_USERS, texts)
    serials = (name for name in _found(_SERIALS, texts) if re.search("[1-9]", name))
    spoken = _system_words(recording)
    return Identities(
        _longest_first(part for name in hosts for part in _with_domain(name) if _is_telling(part, spoken)),
        _longest_first(name for name in users if _is_telling(name, spoken)),
        _longest_first(serials),
    )


def _hosts(recording: Recording, texts: Iterable[str]) -> Iterator[str]:
    for call, answers in recording.calls.items():
        if call.method == "read" and call.of[0] in _HOST_FILES:
            for answer in answers:
                yield answer.contents.get("content", b"").decode("utf-8", "surrogateescape").strip()
    yield from _found(_HOSTS, texts)


def _texts(recording: Recording) -> Iterator[str]:
    for call, answers in recording.calls.items():
        yield from _strings(call.of)
        for answer in answers:
            yield from _strings(tuple(answer.fields.values()))
            for content in answer.contents.values():
                yield content.decode("utf-8", "surrogateescape")


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _strings(one)


def _found(patterns: Iterable[re.Pattern[str]], texts: Iterable[str]) -> Set[str]:
    return {found.group("name") for text in texts for pattern in patterns for found in pattern.finditer(text)}


def _with_domain(name: str) -> Tuple[str, ...]:
    """`n1.rack2.example` as two names: each also stands alone."""
    first, _dot, domain = name.partition(".")
    return (first, domain) if domain else (name,)


def _is_telling(name: str, spoken: FrozenSet[str]) -> bool:
    """Whether a name can mean nothing else."""
    letters = re.search("[A-Za-z]", name) is not None
    known = name.lower() in _WORDS or name in spoken or _ADDRESS.fullmatch(name) is not None
    return letters and len(name) >= _SHORTEST and not known


def _system_words(recording: Recording) -> FrozenSet[str]:
    """Words of the system's own paths and of commands, which cannot be renamed."""
    told: Set[str] = set()
    for call in recording.calls:
        words = " ".join(map(str, call.of))
        if call.method in {"run", "which", "python"} or words.startswith(("/proc/", "/sys/", "/etc/")):
            told.update(re.split(r"[^A-Za-z0-9]+", words))
    return frozenset(told)


def _longest_first(names: Iterable[str]) -> Tuple[str, ...]:
    return tuple(sorted(set(names), key=lambda name: (-len(name), name)))
