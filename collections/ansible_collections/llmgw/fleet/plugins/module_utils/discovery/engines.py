# SPDX-License-Identifier: BSD-2-Clause
"""Which engines a node can run (D13): where each is, its version, and whether it starts at all.

Private to llmgw. Engines that answer `--version` fast are asked; those that import a framework first are looked up in
the metadata of their virtual environment. An engine that llmgw installed is named by the folder of its version, not by
the link `current`: a unit keeps the version that it was given when another one becomes current.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Mapping, NamedTuple, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Engine

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_PREFIX = "/opt/llmgw/engines"
_USER_PREFIX = ".local/share/llmgw/engines"
_CURRENT = "current"
_VERSION_S = 10.0
_QUOTE = 200
_VERSION = re.compile(r"^(?:[\w.-]+[ \t]+)?version:?[ \t]+v?(?P<version>\S+)", re.IGNORECASE | re.MULTILINE)
_BARE_VERSION = re.compile(r"^(?:[\w.-]+[ \t]+)?v?(?P<version>[0-9]+\.[\w.+-]+)", re.MULTILINE)


class _Kind(NamedTuple):
    """How one engine is found: its command, and for Python packages whose import is slow, the package."""

    name: str
    command: str
    package: str | None = None
    module: str | None = None


_KINDS = (
    _Kind("llama.cpp", "llama-server"),
    _Kind("sim", "llmgw-sim"),
    _Kind("vllm", "vllm", package="vllm"),
    _Kind("sglang", "sglang", package="sglang", module="sglang.launch_server"),
)


def read_engines(
    host: Host, scope: str, commands: Mapping[str, Sequence[str]], prefix: str | None = None
) -> tuple[Engine, ...]:
    """The engines of this node. `commands` names a command line, a virtual environment or a folder of versions by kind,
    and goes first; then come engines below `prefix`, where that is another than usual.

    An engine that was named and is not there is reported as not runnable; one that was not named is just absent.
    """
    found = []
    for kind in _KINDS:
        words = tuple(commands.get(kind.name, ()))
        engine = _named(host, kind, words) if words else _usual(host, kind, scope, prefix)
        if engine is not None:
            found.append(engine)
    return tuple(found)


def version_in(output: str) -> str | None:
    """The version in what `--version` printed: `version: 6123 (a1b2c3)`, `llmgw-sim 1.0.0 (simulator)`."""
    found = _VERSION.search(output) or _BARE_VERSION.search(output)
    return found.group("version") if found else None


def package_version(names: tuple[str, ...], package: str) -> str | None:
    """The version of a package by the names in a site-packages directory: `vllm-0.33.0.dist-info`."""
    for name in names:
        found = re.fullmatch(rf"{re.escape(package)}-(?P<version>[^-]+)\.dist-info", name)
        if found:
            return found.group("version")
    return None


def _named(host: Host, kind: _Kind, words: tuple[str, ...]) -> Engine:
    if host.is_directory(words[0]):
        return _current(host, kind, words[0]) or _absent(kind, words, f"no {kind.command} in {words[0]}")
    return _examined(host, kind, words) if host.exists(words[0]) else _absent(kind, words, f"{words[0]} does not exist")


def _absent(kind: _Kind, words: tuple[str, ...], reason: str) -> Engine:
    return Engine(kind.name, words, runnable=False, reason=reason)


def _usual(host: Host, kind: _Kind, scope: str, prefix: str | None) -> Engine | None:
    folders = [f"{prefix.rstrip('/')}/engines"] if prefix else []
    folders += [_PREFIX] if scope == "system" else [f"{host.home()}/{_USER_PREFIX}", _PREFIX]
    for folder in folders:
        engine = _current(host, kind, f"{folder}/{kind.name}")
        if engine is not None:
            return engine
    path = host.which(kind.command)
    return _examined(host, kind, (path,)) if path else None


def _current(host: Host, kind: _Kind, directory: str) -> Engine | None:
    """The engine of a folder `engines/KIND`: the version that is current, or one that lies in it without versions."""
    link = f"{directory}/{_CURRENT}"
    target = host.readlink(link)
    if target is not None:
        folder = host.realpath(link)
        command = _in_environment(host, kind, folder)
        if command is not None:
            return _examined(host, kind, command)
        return _absent(kind, (f"{folder}/bin/{kind.command}",), f"{link} leads to {target}, where no {kind.command} is")
    command = _in_environment(host, kind, directory)
    return _examined(host, kind, command) if command else None


def _in_environment(host: Host, kind: _Kind, directory: str) -> tuple[str, ...] | None:
    """The command of an engine under DIRECTORY/bin; None when it is not there."""
    binaries = f"{directory.rstrip('/')}/bin"
    if host.exists(f"{binaries}/{kind.command}"):
        return (f"{binaries}/{kind.command}",)
    if kind.module and kind.package and _installed(host, directory, kind.package):
        return (f"{binaries}/python3", "-m", kind.module)
    return None


def _examined(host: Host, kind: _Kind, command: tuple[str, ...]) -> Engine:
    if kind.package is None:
        return _asked(host, kind, command)
    for path in (command[0], host.realpath(command[0])):
        version = _installed(host, path.rsplit("/", 2)[0], kind.package)
        if version:
            return Engine(kind.name, command, version)
    return Engine(kind.name, command, reason=f"no metadata of {kind.package} beside {command[0]}")


def _asked(host: Host, kind: _Kind, command: tuple[str, ...]) -> Engine:
    answer = host.run((*command, "--version"), _VERSION_S)
    output = f"{answer.stdout}\n{answer.stderr}"
    if answer.rc == 0:
        return Engine(kind.name, command, version_in(output), runnable=True)
    said = " ".join(output.split())[-_QUOTE:]
    reason = f"no answer within {_VERSION_S:.0f} s" if answer.timed_out else f"exit status {answer.rc}: {said}"
    return Engine(kind.name, command, runnable=False, reason=reason)


def _installed(host: Host, environment: str, package: str) -> str | None:
    """Version of a package in a virtual environment (or under a prefix such as /usr/local), or None."""
    for library in host.list(f"{environment}/lib") or ():
        if library.startswith("python3"):
            for packages in ("site-packages", "dist-packages"):
                version = package_version(host.list(f"{environment}/lib/{library}/{packages}") or (), package)
                if version:
                    return version
    return None
