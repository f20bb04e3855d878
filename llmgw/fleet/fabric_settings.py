# SPDX-License-Identifier: Apache-2.0
"""The host variable `llmgw_fabrics`: fabrics as an operator declares them, checked with every mistake at once (D9)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, TypeVar

from llmgw.errors import LlmgwError, LlmgwErrors
from llmgw.fleet.fabric_addresses import DEFAULT_PREFIX, guid, pci_address, subnet_prefix
from llmgw.fleet.hosts import TEMPLATE_FIX, Host, holds_template

VARIABLE = "llmgw_fabrics"
INFINIBAND, ROCE = "infiniband", "roce"
JOINED, INDEPENDENT = "joined", "independent"
Network = IPv4Network | IPv6Network
_Read = TypeVar("_Read")
_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_KEYS = ("kind", "hcas", "cidrs", "rails")
_SELECTORS = ("pci", "sm_guids", "subnet_prefix", "netdevs")
_LONGEST = 200
_MOST_TOLD = 100
_FIX = "mend it in the inventory, group_vars or host_vars; docs/how-to/declare-fabrics.md has examples"
_QUOTE = "write it in quotes: YAML reads some addresses and GUIDs as numbers"


@dataclass(frozen=True, slots=True)
class Declaration:
    """One fabric as one host declares it. Addresses are in one spelling; an empty tuple or None: not said."""

    name: str
    kind: str
    rails: str = JOINED
    pci: tuple[str, ...] = ()
    sm_guids: tuple[str, ...] = ()
    subnet_prefix: str | None = None
    netdevs: tuple[str, ...] = ()
    cidrs: tuple[Network, ...] = ()

    @property
    def same_everywhere(self) -> dict[str, Any]:
        """What hosts must agree on; PCI addresses and interfaces are each host's own."""
        return {
            "kind": self.kind,
            "rails": self.rails,
            "hcas.sm_guids": self.sm_guids,
            "hcas.subnet_prefix": self.subnet_prefix,
            "cidrs": self.cidrs,
        }


@dataclass(frozen=True, slots=True)
class _Mistake:
    where: str
    what: str
    fix: str = _FIX
    code: str = "inventory-value"


def read_declarations(hosts: Iterable[Host]) -> dict[str, tuple[Declaration, ...]]:
    """Host name to its declared fabrics, sorted by name; a host without the variable declares none.

    Raises LlmgwError `inventory-value` or `inventory-template`, or LlmgwErrors with all of them when there are several.
    Ansible gives every host its own copy of a group's variable: a mistake is told once, for the first host that has it.
    """
    read: dict[str, tuple[tuple[Declaration, ...], tuple[_Mistake, ...]]] = {}
    holders: dict[str, list[str]] = {}
    found: dict[str, tuple[Declaration, ...]] = {}
    for host in sorted(hosts, key=lambda one: one.name):
        value = host.variables.get(VARIABLE, {})
        text = _quoted(value, None)
        if text not in read:
            read[text] = _read(value)
        holders.setdefault(text, []).append(host.name)
        found[host.name] = read[text][0]
    errors = [_error(mistake, holders[text]) for text, (_, mistakes) in read.items() for mistake in mistakes]
    errors = errors or list(_disagreements(found))
    if len(errors) > _MOST_TOLD:
        more = LlmgwError("inventory-value", f"{VARIABLE} has {len(errors) - _MOST_TOLD} more mistakes", fix=_FIX)
        errors = [*errors[:_MOST_TOLD], more]
    if len(errors) > 1:
        raise LlmgwErrors(errors)
    for error in errors:
        raise error
    return found


def _error(mistake: _Mistake, hosts: list[str]) -> LlmgwError:
    others = f" (and of {len(hosts) - 1} more hosts)" if len(hosts) > 1 else ""
    where = f": {mistake.where}" if mistake.where else ""
    return LlmgwError(mistake.code, f"{VARIABLE} of {hosts[0]}{others}{where} {mistake.what}", fix=mistake.fix)


def _disagreements(found: Mapping[str, tuple[Declaration, ...]]) -> Iterator[LlmgwError]:
    """Hosts that mean different fabrics by one name."""
    first: dict[str, tuple[str, Declaration]] = {}
    told: set[tuple[str, str]] = set()
    for host, declarations in found.items():
        for one in declarations:
            other, reference = first.setdefault(one.name, (host, one))
            theirs = reference.same_everywhere
            for key, value in one.same_everywhere.items():
                if value != theirs[key] and (one.name, key) not in told:
                    told.add((one.name, key))
                    yield LlmgwError(
                        "inventory-value",
                        f"{VARIABLE}: {one.name}.{key} is {_shown(theirs[key])} on {other}, {_shown(value)} on {host}",
                        fix="write it once in group_vars/all; hosts may differ in hcas.pci and hcas.netdevs only",
                    )


def _shown(value: Any) -> str:
    if value is None or value == ():
        return "not set"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _read(value: Any) -> tuple[tuple[Declaration, ...], tuple[_Mistake, ...]]:
    if holds_template(value):
        what = "is a template, and only a playbook run can resolve it"
        return (), (_Mistake("", what, TEMPLATE_FIX, "inventory-template"),)
    if not isinstance(value, dict):
        return (), (_Mistake("", f"is not a mapping of fabric names: {_quoted(value)}"),)
    mistakes: list[_Mistake] = []
    declarations = []
    for name, body in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            mistakes.append(
                _Mistake("", f"has a fabric that cannot be called {_quoted(name)}", "use letters, digits, . _ -")
            )
        else:
            reader = _Reader(name, mistakes)
            declarations.append(reader.declaration(body))
    mistakes += _overlaps(declarations)
    return tuple(sorted(declarations, key=lambda one: one.name)), tuple(mistakes)


class _Reader:
    """Reads one fabric; what is wrong is added to the mistakes and left out of the declaration."""

    def __init__(self, name: str, mistakes: list[_Mistake]) -> None:
        self._name = name
        self._mistakes = mistakes

    def declaration(self, body: Any) -> Declaration:
        """The fabric as far as it makes sense."""
        known = len(self._mistakes)
        fields = self._mapping("", body, _KEYS)
        kind = self._choice("kind", fields.get("kind"), (INFINIBAND, ROCE))
        rails = self._choice("rails", fields.get("rails", JOINED), (JOINED, INDEPENDENT))
        hcas = self._mapping("hcas", fields.get("hcas", {}), _SELECTORS)
        prefix = self._texts("hcas.subnet_prefix", [hcas["subnet_prefix"]], _prefix) if "subnet_prefix" in hcas else ()
        one = Declaration(
            name=self._name,
            kind=kind,
            rails=rails,
            pci=self._texts("hcas.pci", hcas.get("pci"), pci_address),
            sm_guids=self._texts("hcas.sm_guids", hcas.get("sm_guids"), guid),
            subnet_prefix=prefix[0] if prefix else None,
            netdevs=self._texts("hcas.netdevs", hcas.get("netdevs"), str),
            cidrs=self._texts("cidrs", fields.get("cidrs"), ip_network),
        )
        if len(self._mistakes) == known:
            self._sense(one)
        return one

    def _sense(self, one: Declaration) -> None:
        if one.kind == INFINIBAND and one.cidrs:
            self._wrong("cidrs", "tell RoCE fabrics only", "tell it by hcas: pci, sm_guids or subnet_prefix")
        if one.kind == ROCE and (one.sm_guids or one.subnet_prefix):
            key = "hcas.sm_guids" if one.sm_guids else "hcas.subnet_prefix"
            self._wrong(key, "tells InfiniBand fabrics only", "tell it by cidrs, or by hcas.pci")
        if not (one.pci or one.sm_guids or one.subnet_prefix or one.cidrs):
            alone = "is told by interface names alone" if one.netdevs else "does not say which ports it has"
            self._wrong("", f"{alone}, and names differ from host to host", "add hcas.pci, sm_guids or cidrs")

    def _mapping(self, key: str, value: Any, known: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._wrong(key, f"is not a mapping: {_quoted(value)}")
            return {}
        for unknown in sorted(_cut(str(name)) for name in value if name not in known):
            self._wrong(f"{key}.{unknown}" if key else unknown, "is not known", f"known are {', '.join(known)}")
        return value

    def _choice(self, key: str, value: Any, choices: tuple[str, ...]) -> str:
        if value in choices and isinstance(value, str):
            return value
        said = "is missing" if value is None else f"is {_quoted(value)}"
        self._wrong(key, f"{said}: it is {' or '.join(choices)}")
        return choices[0]

    def _texts(self, key: str, value: Any, read: Callable[[str], _Read]) -> tuple[_Read, ...]:
        if value is None:
            return ()
        if not isinstance(value, list) or not value:
            self._wrong(key, f"is not a list with something in it: {_quoted(value)}")
            return ()
        found: list[_Read] = []
        for entry in value:
            if not isinstance(entry, str) or not entry.strip():
                self._wrong(key, f"holds {_quoted(entry)}, which is no text", _QUOTE)
                continue
            try:
                found.append(read(entry.strip()))
            except ValueError as error:
                self._wrong(key, f"holds {_quoted(entry)}: {_cut(str(error))}")
        return tuple(sorted(set(found), key=str))

    def _wrong(self, key: str, what: str, fix: str = _FIX) -> None:
        self._mistakes.append(_Mistake(f"{self._name}.{key}" if key else self._name, what, fix))


def _quoted(value: Any, longest: int | None = _LONGEST) -> str:
    """The value as it would be written, and no more of it than a line."""
    try:
        text = repr(value)
    except RecursionError:
        text = f"a {type(value).__name__} that is nested too deep"
    return text if longest is None else _cut(text, longest)


def _cut(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[:longest]}..."


def _prefix(text: str) -> str:
    prefix = subnet_prefix(text)
    if prefix == DEFAULT_PREFIX:
        raise ValueError("it is what every fabric has that nobody gave one, so it tells none apart")
    return prefix


def _overlaps(declarations: Sequence[Declaration]) -> Iterator[_Mistake]:
    """What two fabrics of one host would both have, once for each fabric that has it after the first."""
    first: dict[str, str] = {}
    for one in declarations:
        for value in (*one.pci, *one.sm_guids, *filter(None, [one.subnet_prefix])):
            if first.setdefault(value, one.name) != one.name:
                yield _shared(value, first[value], one.name)
    order = {one.name: place for place, one in enumerate(declarations)}
    networks = [(network, one.name) for one in declarations for network in one.cidrs]
    around: list[tuple[Network, str]] = []
    # Networks are inside one another or apart: those around the next one are the last of those before it.
    for network, name in sorted(networks, key=lambda entry: (entry[0].version, *_span(entry[0]), order[entry[1]])):
        while around and not _is_inside(network, around[-1][0]):
            around.pop()
        other = next((holder for _, holder in reversed(around) if holder != name), None)
        if other is not None:
            yield _shared(str(network), *sorted((other, name), key=order.__getitem__))
        around.append((network, name))


def _shared(value: str, one: str, other: str) -> _Mistake:
    return _Mistake("", f"gives {value} to both {one} and {other}", "a port is in one fabric: leave it in one of them")


def _span(network: Network) -> tuple[int, int]:
    return int(network.network_address), network.prefixlen


def _is_inside(network: Network, other: Network) -> bool:
    same = network.version == other.version and network.prefixlen >= other.prefixlen
    return same and int(network.network_address) >> (network.max_prefixlen - other.prefixlen) == int(
        other.network_address
    ) >> (other.max_prefixlen - other.prefixlen)
