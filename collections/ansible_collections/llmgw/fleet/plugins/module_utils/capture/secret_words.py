# SPDX-License-Identifier: BSD-2-Clause
"""Finds what looks like a secret in any text, and writes asterisks over it (R10).

Private to llmgw and pure. As many asterisks as there were characters: binary formats that count them stay readable.
"""

from __future__ import annotations

import re
from typing import Iterable, Tuple

_NAME = rb"(?:token|secret|passw(?:or)?d|credentials?|api_?key|(?<![a-z0-9])key)"
_VALUE = rb"(?:\"(?P<v1>[^\"\n\0]*)\"|'(?P<v2>[^'\n\0]*)'|(?P<v3>[^\s\"'\0,;&]+))"
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # "HF_TOKEN=one two": quoted as a whole, as systemd's Environment= has it
        rb"\"[a-z0-9_.-]{0,64}?" + _NAME + rb"=(?P<v1>[^\"\n\0]*)\"",
        rb"'[a-z0-9_.-]{0,64}?" + _NAME + rb"=(?P<v1>[^'\n\0]*)'",
        _NAME + rb"=" + _VALUE,
        # --api-key VALUE, also between the NUL bytes of a command line in /proc
        rb"--[a-z0-9_-]{0,64}?" + _NAME + rb"[\"']?[ \t\0]+(?!-)" + _VALUE,
        # "token": "VALUE"
        _NAME + rb"\"[ \t]*:[ \t]*\"(?P<v1>(?:[^\"\\\n]|\\.)*)",
        rb"authorization[\"']?[ \t]*[:=][ \t]*[\"']?(?P<v1>[^\"'\r\n\0]+)",
        rb"\bbearer[ \t]+(?P<v1>[a-z0-9._~+/=-]{8,})",
        rb"://[^\s/@:]{0,100}:(?P<v1>[^\s/@]{1,200})@",
        rb"PRIVATE KEY-----(?P<v1>[^-]*)",
        # tokens that tell by their beginning whose they are
        rb"(?<![a-z0-9])(?P<v1>(?:hf_|gh[pousr]_|glpat-|nvapi-)[a-z0-9_-]{20,}|sk-[a-z0-9_-]{20,}|AKIA[0-9A-Z]{16})",
        rb"(?<![a-z0-9])(?P<v1>eyJ[a-z0-9_-]{10,}\.[a-z0-9_-]{10,}\.[a-z0-9_-]*)",
    )
)
# What llmgw's own units say of secrets: where they lie, and their names. Without it a unit would seem to be edited.
_NAMES_OF_SECRETS = re.compile(
    rb"^(?:LoadCredential=[a-z0-9._-]+:(?:/|%h/)[^\n]*|ApiKey=[a-z0-9._-]+)$"
    rb"|/guard\.py(?: --secret [A-Za-z_][A-Za-z0-9_]*=[a-z0-9][a-z0-9._-]{0,59}(?= ))+",
    re.MULTILINE,
)
_SECRET_NAME = re.compile(_NAME.decode("ascii") + r"s?$", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether a variable or an option of this name holds a secret: `HF_TOKEN`, `--api-key`."""
    return _SECRET_NAME.search(name) is not None


def masked(content: bytes) -> bytes:
    """The content with asterisks over every secret; as long as before."""
    found, end = [], 0
    for kept in _NAMES_OF_SECRETS.finditer(content):
        found += [_all_masked(content[end : kept.start()]), kept.group()]
        end = kept.end()
    return b"".join((*found, _all_masked(content[end:])))


def masked_text(text: str) -> str:
    """`masked` of a text."""
    return masked(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def masked_words(words: Iterable[str]) -> Tuple[str, ...]:
    """The words of a command line; a word after the name of a secret is one."""
    found = []
    secret = False
    for word in words:
        found.append("*" * len(word) if secret and not word.startswith("-") else masked_text(word))
        secret = word.startswith("--") and is_secret_name(word)
    return tuple(found)


def _all_masked(content: bytes) -> bytes:
    for pattern in _PATTERNS:
        content = pattern.sub(_asterisks, content)
    return content


def _asterisks(found: re.Match[bytes]) -> bytes:
    whole = found.group()
    for name in found.re.groupindex:
        begin, end = found.span(name)
        if begin >= 0:
            begin, end = begin - found.start(), end - found.start()
            whole = whole[:begin] + b"*" * (end - begin) + whole[end:]
    return whole
