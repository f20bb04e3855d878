# SPDX-License-Identifier: Apache-2.0
"""Checks of `profiles` for secrets: what looks like one stands nowhere in a catalog, and those that nodes hold are told
apart at the gateways too (R10). No message repeats a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from llmgw.catalog import codes
from llmgw.catalog.gateway_secrets import secret_variable
from llmgw.catalog.problem import Problem
from llmgw.catalog.schema.document import Document
from llmgw.catalog.schema.profiles import Profile
from llmgw.catalog.tree import Path

_VARIABLE = re.compile(
    r"((^|_)(API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|SECRET_?KEY|TOKEN)|SECRETS?|PASSWORD|PASSWD|PASSPHRASE)$"
)
_CREDENTIALS = re.compile(r"CREDENTIALS?$")
_OPTION = re.compile(r"(API_KEY|ACCESS_KEY|PRIVATE_KEY|(HF|HUB|AUTH|ACCESS|BEARER)_TOKEN|SECRET|PASSWORD|PASSWD)$")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s]*@", re.IGNORECASE)
"""A user, mostly with a password, before the host."""
_SHOWN = "is shown in unit files, plans and process lists"
_KEPT_APART = "Remove it: no secret belongs in a catalog. `secrets` of the profile names one that its nodes hold."


def in_variable(path: Path, name: str, value: str) -> Iterator[Problem]:
    """The problem of a variable of `env` at `path` that is a secret by its name, or has one in its value."""
    upper = name.upper()
    # A path to a file is no secret; a proxy may be written without its scheme.
    if _VARIABLE.search(upper) or (_CREDENTIALS.search(upper) and not value.startswith("/")):
        yield Problem(path, codes.SECRET, f"`{name}` looks like a secret, and `env` {_SHOWN}", _KEPT_APART, at_key=True)
    elif _ADDRESS.search(value) or (upper.endswith("_PROXY") and "@" in value and upper != "NO_PROXY"):
        why = f"the address in `{name}` has a user or a password in it, and `env` {_SHOWN}"
        yield Problem(path, codes.SECRET, why, _KEPT_APART, at_key=True)


def in_argument(path: Path, item: str, option: str) -> Iterator[Problem]:
    """The problem of an item of `args` at `path` that takes a secret, or has one in an address; `option`: its name as
    the engine reads it, if it is an option.
    """
    if option.startswith("-") and _OPTION.search(option.upper().replace("-", "_")):
        yield Problem(path, codes.SECRET, f"`{option}` takes a secret, and `args` {_SHOWN}", _KEPT_APART)
    elif _ADDRESS.search(item):
        why = f"this address has a user or a password in it, and `args` {_SHOWN}"
        yield Problem(path, codes.SECRET, why, _KEPT_APART)


def check_secret_names(document: Document) -> Iterator[Problem]:
    """A problem for every secret that gateways could not tell from another one."""
    taken: dict[str, tuple[str, Path]] = {}
    for profile in sorted(document.profiles):
        for path, secret in _named(profile, document.profiles[profile]):
            variable = secret_variable(secret)
            first, other = taken.setdefault(variable, (secret, path))
            if first != secret:
                why = f"the secrets `{first}` and `{secret}` would both be `{variable}` at the gateways"
                fix = "Give one of them a name that differs in more than `.`, `_` and `-`."
                yield Problem(path, codes.SECRET_NAME, why, fix, reads=(other,), other=other)


def _named(name: str, profile: Profile) -> Iterator[tuple[Path, str]]:
    for variable, secret in sorted(profile.secrets.items()):
        yield ("profiles", name, "secrets", variable), secret
