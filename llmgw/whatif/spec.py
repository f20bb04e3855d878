# SPDX-License-Identifier: Apache-2.0
"""How supposed nodes are written: `4xh200x8,fabric=ib-a`, and without the number where it is what is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from llmgw.errors import LlmgwError
from llmgw.whatif.near import no_such

CPU = "cpu"
NONE = "none"
"""As a fabric or domain: the nodes are in none."""
MAX_NODES = 1024
MAX_DEVICES = 128
"""Of one node: sixteen cards in MIG mode have 112 instances."""
GB = 10**9
_MAX_MEMORY_GB = 1_000_000
_KIND = re.compile(r"(?P<cls>[a-z0-9][a-z0-9.+-]*?)x(?P<devices>[0-9]{1,4})")
_COUNTED = re.compile(r"(?P<count>[0-9]{1,9})x(?P<rest>.+)")
_NUMBER = re.compile("[0-9]{1,9}")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")
CODE = "what-if-spec"


@dataclass(frozen=True, slots=True)
class NodesSpec:
    """Equal nodes that somebody thinks of; `device_class` as it was written, which may be a prefix."""

    device_class: str
    devices: int
    """Devices of the class in each node; 0 for `cpu`."""
    count: int = 1
    fabric: str | None = None
    domain: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    memory_bytes: int | None = None
    weights: tuple[str, ...] = ()
    """Models whose weights lie on each of the nodes, by Hugging Face id or path."""
    like: str | None = None
    """The node to copy; None: one is looked for."""


def nodes_spec(text: str) -> NodesSpec:
    """`4xh200x8[,KEY=VALUE]...` as data. Raises LlmgwError `what-if-spec` with what is wrong and how it is written."""
    head, *options = text.split(",")
    found = _COUNTED.fullmatch(head.strip().lower())
    if found is None:
        raise _wrong(text, "it does not begin with a number of nodes", "write NODESxCLASSxDEVICES, such as 4xh200x8")
    count = int(found["count"])
    if not 1 <= count <= MAX_NODES:
        raise _wrong(text, f"{count} is no number of nodes", f"it is from 1 to {MAX_NODES}")
    return replace(_kind(text, found["rest"], options, "4xh200x8"), count=count)


def kind_spec(text: str) -> NodesSpec:
    """`h200x8[,KEY=VALUE]...` as data: a kind of node, whose number is open. Raises LlmgwError `what-if-spec`."""
    head, *options = text.split(",")
    found = _COUNTED.fullmatch(head.strip().lower())
    if found is not None and (_KIND.fullmatch(found["rest"]) or found["rest"] == CPU):
        raise _wrong(text, "it has a number of nodes, which is what is looked for", f"write {found['rest']}")
    return _kind(text, head.strip().lower(), options, "h200x8")


def _kind(text: str, head: str, options: list[str], example: str) -> NodesSpec:
    found = _KIND.fullmatch(head)
    if head != CPU and found is None:
        why = f"`{head}` does not say how many devices of which class a node has"
        fix = f"write the class, an x and the number, such as {example}; nodes without devices are `{CPU}`"
        raise _wrong(text, why, fix)
    if found is not None and found["cls"] == CPU:
        raise _wrong(
            text, f"`{CPU}` is no device class", f"nodes without devices are `{CPU}`, without a number of them"
        )
    devices = int(found["devices"]) if found else 0
    if found and not 1 <= devices <= MAX_DEVICES:
        raise _wrong(text, f"{devices} is no number of devices in a node", f"it is from 1 to {MAX_DEVICES}")
    spec, given = NodesSpec(found["cls"] if found else CPU, devices), set[str]()
    for option in options:
        key, equals, value = (part.strip() for part in option.partition("="))
        if key not in _OPTIONS:
            raise no_such(CODE, f"`{text}`: there is no `{key}` of supposed nodes", key, _OPTIONS, nothing="")
        if not equals or not value:
            raise _wrong(text, f"`{key}` has no value", f"write {key}=VALUE")
        if key in given and key not in _REPEATED:
            raise _wrong(text, f"`{key}` is there twice", "give it once")
        given.add(key)
        try:
            spec = _OPTIONS[key](spec, value)
        except ValueError as error:
            raise _wrong(text, f"`{value}` is no value of `{key}`", str(error)) from None
    return spec


def _word(value: str) -> str:
    if _WORD.fullmatch(value) is None:
        message = "write letters, digits, `.`, `_`, `/` and `-`, at most 63 of them"
        raise ValueError(message)
    return value


def _label(spec: NodesSpec, value: str) -> NodesSpec:
    name, _, wanted = value.partition(min(":=", key=(value + ":=").index))
    if not wanted or _WORD.fullmatch(name) is None:
        message = "write label=NAME:VALUE, such as label=pool:prod"
        raise ValueError(message)
    return replace(spec, labels=spec.labels | {name: wanted})


def _memory(spec: NodesSpec, value: str) -> NodesSpec:
    number = value.lower().removesuffix("gb").strip()
    if _NUMBER.fullmatch(number) is None or not 1 <= int(number) <= _MAX_MEMORY_GB:
        message = "write the host memory of a node in GB, such as memory=2000"
        raise ValueError(message)
    return replace(spec, memory_bytes=int(number) * GB)


_OPTIONS: dict[str, Callable[[NodesSpec, str], NodesSpec]] = {
    "fabric": lambda spec, value: replace(spec, fabric=_word(value)),
    "domain": lambda spec, value: replace(spec, domain=_word(value)),
    "label": _label,
    "memory": _memory,
    "weights": lambda spec, value: replace(spec, weights=(*spec.weights, value)),
    "like": lambda spec, value: replace(spec, like=value),
}
_REPEATED = ("label", "weights")


def _wrong(text: str, why: str, fix: str) -> LlmgwError:
    return LlmgwError(CODE, f"`{text}`: {why}", fix=fix)
