# SPDX-License-Identifier: BSD-2-Clause
"""What is left out of a recording: secrets, the routes of a gateway, connections of clients (R10, D16).

Private to llmgw and pure. Discovery itself is given everything; only what is kept of it passes through here.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, Dict, Mapping, Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils.capture import secret_words
from ansible_collections.llmgw.fleet.plugins.module_utils.capture.recording import Answer, Call, Word
from ansible_collections.llmgw.fleet.plugins.module_utils.unitfile import DIGEST_VARIABLE

_ENVIRONMENT = re.compile(r"/proc/[0-9]+/environ")
_SOCKETS = re.compile(r"/proc/(?:[0-9]+/|self/)?net/tcp6?")
_LISTENS = re.compile(rb" *[0-9]+: [0-9A-F]+:[0-9A-F]{4} [0-9A-F]+:[0-9A-F]{4} 0A ")
_KEPT_OUT = b"(kept out of the capture)"
_SHORTEST = 8
"""Characters of a secret that is looked for everywhere: shorter ones are words as well."""


class Withheld:
    """What not to keep of one machine. `bundle` and `token_file` are paths of its gateway, if it has one."""

    def __init__(self, bundle: str | None = None, token_file: str | None = None) -> None:
        self._bundle = bundle
        self._token_file = token_file
        self._known: set[bytes] = set()

    def call(self, method: str, of: Tuple[Word, ...]) -> Call:
        """The call as it may be kept."""
        words = secret_words.masked_words(map(str, of))
        return Call(method, tuple(word if isinstance(given, str) else given for given, word in zip(of, words)))

    def answer(self, call: Call, answer: Answer) -> Answer:
        """The answer as it may be kept, but for secrets that are only known by the end: those are for `known`."""
        contents = {name: secret_words.masked(self._kept(call, value)) for name, value in answer.contents.items()}
        return Answer(_values(answer.fields), contents)

    def known(self, answer: Answer) -> Answer:
        """The answer without what turned out to be a secret elsewhere."""
        contents: Dict[str, bytes] = dict(answer.contents)
        for secret in sorted(self._known, key=len, reverse=True):
            contents = {name: value.replace(secret, b"*" * len(secret)) for name, value in contents.items()}
        return replace(answer, contents=contents)

    def _kept(self, call: Call, content: bytes) -> bytes:
        path = str(call.of[0]) if call.method == "read" else ""
        if path and path == self._token_file:
            self._learn(content.strip())
            return _KEPT_OUT if content.strip() else content
        if path and path == self._bundle:
            return _identity(content)
        if _ENVIRONMENT.fullmatch(path):
            return self._environment(content)
        if _SOCKETS.fullmatch(path):
            return _listening(content)
        return content

    def _environment(self, content: bytes) -> bytes:
        """A process's environment with the one variable that discovery looks for."""
        variables = content.split(b"\0")
        for variable in variables:
            name, _separator, value = variable.partition(b"=")
            if secret_words.is_secret_name(name.decode("ascii", "replace")):
                self._learn(value)
        return b"\0".join(one for one in variables if one.startswith(DIGEST_VARIABLE.encode("ascii") + b"="))

    def _learn(self, secret: bytes) -> None:
        if len(secret) >= _SHORTEST:
            self._known.add(secret)


def _identity(bundle: bytes) -> bytes:
    """What identifies a published bundle: its numbers and digests, none of what lies deeper."""
    try:
        document = json.loads(bundle)
    except (ValueError, RecursionError):
        return _KEPT_OUT
    if not isinstance(document, dict):
        return _KEPT_OUT
    plain = {
        name: value
        for name, value in document.items()
        if not isinstance(value, (dict, list)) and not secret_words.is_secret_name(name)
    }
    return json.dumps(plain).encode("ascii")


def _listening(table: bytes) -> bytes:
    """A table of sockets without the connections, which tell who a machine's clients are."""
    lines = table.split(b"\n")
    return b"\n".join(line for number, line in enumerate(lines) if number == 0 or not line or _LISTENS.match(line))


def _values(fields: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: _value(value) for name, value in fields.items()}


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return secret_words.masked_text(value)
    if isinstance(value, (list, tuple)):
        return [_value(one) for one in value]
    return value
