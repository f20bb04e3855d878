# SPDX-License-Identifier: BSD-2-Clause
"""Runs discovery so that it is recorded, and again from a recording (D16).

Private to llmgw.
"""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Dict, Mapping, NamedTuple, Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils import apart
from ansible_collections.llmgw.fleet.plugins.module_utils.capture import names, saving, secret_words
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.errors import CaptureError
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.recorder import RecordingHost
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.recording import (
    LEFT_OUT,
    UNANSWERED,
    Answer,
    Recording,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.redaction import Redactor
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.replay import ReplayingHost
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.withheld import Withheld
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.node import DEFAULT_TIMEOUT_S, Options, collect

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.contract import NodeFacts
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_NOT_ASKED = ("module_version",)
_HOST_NAME = "/proc/sys/kernel/hostname"
_KEY_BYTES = 32
_GRACE_S = 60.0
"""Discovery ends by itself in time; this is for replacing what is to be replaced, and for the archive."""
_INDEX = saving.INDEX
_AGAIN = "make the capture again: llmgw capture"


class Redaction(NamedTuple):
    """That stand-ins are wanted: by which key (None: one that nobody knows), and for which names of hosts besides."""

    key: str | None = None
    names: Tuple[str, ...] = ()


class Taken(NamedTuple):
    """A capture that was written: what the machine is called in it, and how much it holds."""

    name: str
    size_bytes: int
    calls: int
    left_out: Tuple[str, ...]
    unanswered: Tuple[str, ...]


def write(host: Host, options: Options, path: str, name: str | None, redaction: Redaction | None) -> Taken:
    """Captures a machine as the archive `path`, under this name or its own. Raises OSError.

    In a process of its own, as discovery is: a filesystem that never answers must not keep the caller from ending.
    """
    try:
        return apart.call(lambda: _write(host, options, path, name, redaction), options.timeout_s + _GRACE_S)
    except apart.NoResult as error:
        raise TimeoutError(f"the machine could not be read to the end: {error}") from error


def _write(host: Host, options: Options, path: str, name: str | None, redaction: Redaction | None) -> Taken:
    recording, _facts = take(host, options)
    called = name or (host.read(_HOST_NAME) or b"").decode("ascii", "replace").strip() or "machine"
    if redaction is not None:
        key = os.urandom(_KEY_BYTES) if redaction.key is None else redaction.key.encode("utf-8")
        redactor = Redactor(recording, key, redaction.names, called)
        recording, called = redactor.recording(recording), redactor.text(called)
    called = names.part(called)
    size = saving.save(recording, path, called)
    return Taken(called, size, len(recording.calls), _calls(recording, LEFT_OUT), _calls(recording, UNANSWERED))


def take(host: Host, options: Options) -> Tuple[Recording, NodeFacts]:
    """What discovery with these options reads on a machine, and the facts that it makes of it."""
    recorder = RecordingHost(host, Withheld(options.gateway_bundle, options.gateway_admin_token_file))
    made_at = host.clock()
    facts = collect(recorder, options)
    for constant in (recorder.machine, recorder.python_version, recorder.home):  # also where nobody asked yet
        constant()
    return Recording(_document(options), made_at, options.module_version, recorder.calls()), facts


def facts_in(recording: Recording, module_version: str | None = None) -> NodeFacts:
    """The facts that this version of discovery makes of a recording. Raises CaptureError for options that are none."""
    options = replace(_options(recording.options), module_version=module_version)
    try:
        return collect(ReplayingHost(recording), options)
    except ValueError as error:
        raise CaptureError(_INDEX, f"its options are not as llmgw writes them: {error}", _AGAIN) from error


def _calls(recording: Recording, wanted: Answer) -> Tuple[str, ...]:
    """Calls that were answered so at any time, as a reader would say them."""
    found = (call for call, answers in recording.calls.items() if wanted in answers)
    return tuple(" ".join((call.method, *map(str, call.of)))[:200] for call in found)


def _document(options: Options) -> Dict[str, Any]:
    """The options as JSON, secrets masked as they are in calls."""
    return {name: _masked(value) for name, value in asdict(options).items() if name not in _NOT_ASKED}


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return secret_words.masked_text(value)
    if isinstance(value, Mapping):
        return {name: _masked(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return list(secret_words.masked_words(map(str, value)))
    return value


def _options(document: Mapping[str, Any]) -> Options:
    """The options in a document; those that this version does not know change nothing. Raises CaptureError."""
    usual = asdict(Options())
    known = {name: value for name, value in document.items() if name in usual and name not in _NOT_ASKED}
    wrong = [name for name, value in known.items() if not _fits(value, usual[name])]
    if wrong:
        why = f"its option {wrong[0]} is not as llmgw writes it: {str(known[wrong[0]])[:60]!r}"
        raise CaptureError(_INDEX, why, _AGAIN)
    options = Options(**known)
    return replace(options, timeout_s=max(DEFAULT_TIMEOUT_S, options.timeout_s))


def _fits(value: Any, usual: Any) -> bool:
    """Whether a value can be one of an option with this default."""
    if value is None or isinstance(usual, str):
        return type(value) is type(usual)
    if isinstance(usual, dict):
        return isinstance(value, dict) and all(map(_are_words, value.values()))
    if isinstance(usual, float):
        return isinstance(value, (int, float))
    return isinstance(value, str) or _are_words(value)


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)
