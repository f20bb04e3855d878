# SPDX-License-Identifier: Apache-2.0
"""Checks of `secrets` of profiles: names and no values, and keys by the variable that the engine reads (R10)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llmgw.capability.engines import ENGINES
from llmgw.catalog import codes
from llmgw.catalog.problem import Problem
from llmgw.catalog.schema.document import Document
from llmgw.catalog.schema.profiles import Profile
from llmgw.catalog.tree import Path

_KNOWN_FORM = re.compile(r"(hf|sk|pk|ghp|gho|glpat|xox[a-z])[_-][a-z0-9_-]{8,}")
_RANDOM = re.compile(r"[a-z0-9]{20,}")
_LOADER = re.compile(r"LD_.*|PATH|PYTHON(PATH|HOME|STARTUP)")
_VALUE_FIX = (
    "Give it a name in `llmgw_secrets`, with the value in Ansible Vault, and write the name here. What was written into"
    " a file is a secret no more: have it changed."
)


def check_secrets(document: Document) -> Iterator[Problem]:
    """Problems of the secrets of every profile."""
    keys = frozenset(can.key_variable for can in ENGINES.values() if can.key_variable)
    for name, profile in document.profiles.items():
        for variable, secret in profile.secrets.items():
            at: Path = ("profiles", name, "secrets", variable)
            if _looks_like_a_value(secret):
                why = f"`{variable}` gets the name of a secret, and what stands here looks like its value"
                yield Problem(at, codes.SECRET, why, _VALUE_FIX)
            elif _LOADER.fullmatch(variable):
                why = f"`{variable}` decides how the process itself is started, and is no place for a secret"
                yield Problem(at, codes.RESERVED, why, "Use the variable that the engine reads.", at_key=True)
            else:
                yield from _key(at, variable, profile, keys)


def _key(at: Path, variable: str, profile: Profile, keys: frozenset[str]) -> Iterator[Problem]:
    """A key by a variable that another engine reads would leave this one open to everybody."""
    own = ENGINES[profile.engine].key_variable
    if variable.upper() not in keys | {"API_KEY"} or variable == own:
        return
    why = f"{profile.engine} does not take its clients' key from `{variable}`, and would answer without one"
    fix = f"Use `{own}`."
    if own is None:
        fix = "Remove it: it takes none from its environment. `fleet.engines_reachable_from` keeps strangers away."
    yield Problem(at, codes.SECRET, why, fix, at_key=True, reads=(("profiles", at[1], "engine"),))


def _looks_like_a_value(name: str) -> bool:
    known = _KNOWN_FORM.fullmatch(name) and any(one.isdigit() or one == "_" for one in name)
    random = _RANDOM.fullmatch(name) and any(one.isdigit() for one in name) and any(one.isalpha() for one in name)
    return bool(known or random)
