# SPDX-License-Identifier: Apache-2.0
"""What differs between two texts of a unit, in the words of a command line: `--max-model-len 4096 -> 8192` (R1).

Told are the engine's version and command line, its environment, its devices, and settings of systemd. Units hold no
secrets, so neither does what is told of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from llmgw.engines import unit_words
from llmgw.nodekit import unitfile

MOST = 100
"""Columns that the whole may take; what does not fit is counted."""
_LONGEST = 40
_OPTION = re.compile(r"--?[A-Za-z][^=\s]*")
_VARIABLE = re.compile(r'^Environment="?([A-Za-z_][A-Za-z0-9_]*)=', re.MULTILINE)
_SETTING = re.compile(r"^([A-Z][A-Za-z0-9]*)=(.*)$", re.MULTILINE)
_HEADER = "[X-Llmgw]"
_TOLD_OTHERWISE = frozenset({"Environment", "ExecStart", "ExecStartPre", "Description", "DeviceAllow"})
_FOLLOWS = frozenset({"LLMGW_PROCESS_DIGEST", "CUDA_VISIBLE_DEVICES"})
"""Variables that change because something else does, which is told."""
_Values = Mapping[str, tuple[str, ...]]


def what_changes(before_text: str, after_text: str) -> str | None:
    """What is other in the second text of one unit, at most about 100 columns; None where nothing is that is told.

    A text that llmgw did not write is compared as far as it can be read.
    """
    said = list(dict.fromkeys(_changes(before_text, after_text)))
    return _bounded(said) if said else None


def _changes(before_text: str, after_text: str) -> Iterator[str]:
    before, after = unitfile.parse(before_text), unitfile.parse(after_text)
    engine = list(_engine(before, after))
    yield from engine
    words = unit_words.engine_words(before_text), unit_words.engine_words(after_text)
    # Another engine has another program, wherever it is: that says nothing more.
    old, new = (one[1:] for one in words) if engine else words
    yield from _command(old, new)
    yield from _differences(_environment(before_text), _environment(after_text), "=")
    if set(before.devices) != set(after.devices):
        if len(before.devices) == len(after.devices):
            yield "other devices"
        else:
            yield f"{len(before.devices)} -> {len(after.devices)} devices"
    elif before.devices != after.devices:
        yield "its devices in another order"
    yield from _differences(_settings(before_text), _settings(after_text), "=")


def _engine(before: unitfile.Header, after: unitfile.Header) -> Iterator[str]:
    if before.engine != after.engine:
        yield _replaced("engine", before.engine, after.engine)
    elif before.engine_version != after.engine_version:
        yield _replaced("engine", before.engine_version, after.engine_version)


def _command(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """The program and the words before the first option, then options by name, in the order of the new command."""
    (old_head, old), (new_head, new) = _by_option(before), _by_option(after)
    if old_head != new_head and old_head and new_head:
        if len(old_head) == len(new_head):
            pairs = zip(old_head, new_head, strict=True)
            yield from (f"{_short(one)} -> {_short(other)}" for one, other in pairs if one != other)
        else:
            yield "the words of its command"
    yield from _differences(old, new, " ")


def _by_option(words: Sequence[str]) -> tuple[tuple[str, ...], _Values]:
    """The words before the first option, and by option what stands behind it, once for each time it is given."""
    head: list[str] = []
    found: dict[str, list[list[str]]] = {}
    current: list[str] = head
    for word in words:
        name, equals, value = word.partition("=")
        if not _OPTION.fullmatch(name):
            current.append(word)
            continue
        current = [value] if equals else []
        found.setdefault(name, []).append(current)
    return tuple(head), {name: tuple(" ".join(one) for one in values) for name, values in found.items()}


def _environment(text: str) -> _Values:
    names = dict.fromkeys(name for name in _VARIABLE.findall(text) if name not in _FOLLOWS)
    return {name: (unit_words.variable(text, name) or "",) for name in names}


def _settings(text: str) -> _Values:
    """The lines of systemd's sections, but for those that are told in other words."""
    found: dict[str, list[str]] = {}
    for name, value in _SETTING.findall(text.partition(_HEADER)[0]):
        if name not in _TOLD_OTHERWISE:
            found.setdefault(name, []).append(value)
    return {name: tuple(values) for name, values in found.items()}


def _differences(before: _Values, after: _Values, joint: str) -> Iterator[str]:
    """`NAME 1 -> 2` for what has another value, then what is new, then what is gone."""
    for name, values in after.items():
        if name in before and before[name] != values:
            yield _replaced(name, ", ".join(before[name]), ", ".join(values))
    for name, values in after.items():
        if name not in before:
            yield f"{_given(name, values, joint)} added"
    for name, values in before.items():
        if name not in after:
            yield f"{_given(name, values, joint)} gone"


def _given(name: str, values: Sequence[str], joint: str) -> str:
    told = _short(", ".join(values))
    return f"{name}{joint}{told}" if told else name


def _replaced(name: str, before: str | None, after: str | None) -> str:
    """`NAME 1 -> 2`, in short where both are long and differ somewhere within."""
    one, other = (_short(value or "nothing") for value in (before, after))
    return f"{name} changes" if one == other else f"{name} {one} -> {other}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _bounded(said: Sequence[str]) -> str:
    """The first of them that fit, at least one, and how many more there are."""
    shown = 1
    while shown < len(said) and len(_with_rest(said, shown + 1)) <= MOST:
        shown += 1
    return _with_rest(said, shown)


def _with_rest(said: Sequence[str], shown: int) -> str:
    more = f", and {len(said) - shown} more" if len(said) > shown else ""
    return ", ".join(said[:shown]) + more
