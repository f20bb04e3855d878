# SPDX-License-Identifier: BSD-2-Clause
"""What to tell a person when a fetch failed, and what to do about it (D12). Private to llmgw and pure."""

from __future__ import annotations

import re
from typing import Collection, FrozenSet, Iterator, NamedTuple, Optional, Tuple

HUB = "https://huggingface.co"
_STAYS = "What came stays; apply again"
_WHO = "the user that fetches write to the directory."
_NO_HUB = "{hub} does not speak as a hub does: {said}. Is llmgw_hf_endpoint right?"
_RULES: Tuple[Tuple[FrozenSet[str], str], ...] = (
    # Before what the hub refused meanwhile.
    (frozenset({"OddAnswer"}), _NO_HUB),
    (
        frozenset({"no library"}),
        "huggingface_hub is not installed: run the playbook llmgw.fleet.weights, and then apply again.",
    ),
    (
        frozenset({"errno 28", "errno 122"}),
        "The filesystem became full while it was fetched. What came stays; make room and apply again.",
    ),
    (frozenset({"errno 1", "errno 13", "errno 30"}), "The directory cannot be written to: {said}."),
    (frozenset({"GatedRepoError"}), "{name} is gated, and {hub} does not let {whose} have it. {token}"),
    (
        frozenset({"RevisionNotFoundError"}),
        "{hub} has {name}, but no revision {revision} of it. Correct the model's `revision` in the catalog.",
    ),
    (
        frozenset({"RepositoryNotFoundError", "HTTP 401", "HTTP 403"}),
        "{hub} shows nobody {name} who asks as this host does. Is its `hf_id` right? {token}",
    ),
    (
        frozenset({"HFValidationError"}),
        "{name} is no id of a repository, which is an owner and a name: Qwen/Qwen3-32B.",
    ),
    (
        frozenset({"HTTP 429"}),
        "{hub} wants fewer requests (429). What came stays; apply again later, with a token if there was none.",
    ),
    (
        frozenset({"FileMetadataError", "JSONDecodeError"}),
        _NO_HUB,
    ),
    (
        frozenset({"LinkInTheWay"}),
        "{said} is a link, or has a second name: what is written there goes elsewhere. Remove it, and let only " + _WHO,
    ),
    (
        frozenset({"RemoteProtocolError", "ChunkedEncodingError", "IncompleteRead", "ProtocolError", "cut off"}),
        "{hub} sent less of a file than it has ({said}). " + _STAYS + ".",
    ),
    (
        frozenset({"ConnectionError", "ConnectError", "TimeoutException", "Timeout", "ProxyError", "no answer"}),
        "{hub} does not answer this host: {said}. "
        + _STAYS
        + " once it answers, or name a mirror by llmgw_hf_endpoint.",
    ),
    (
        frozenset({"TypeError", "AttributeError", "KeyError", "AssertionError"}),
        "{hub} does not speak as a hub does ({what}: {said}). Is llmgw_hf_endpoint right?",
    ),
)
"""Any of these words, and what it means. The first one that fits is said."""


class Asked(NamedTuple):
    """What was asked for, and of whom. `endpoint` may hold a name and a password; no sentence does."""

    repository: str
    revision: str
    endpoint: str
    token_file: Optional[str]


def sentence(asked: Asked, kinds: Collection[str], message: str) -> str:
    """Why it failed and how to mend it, from the names of the error's classes (`child.kinds`) and its text."""
    hub = without_password(asked.endpoint)
    known = {*kinds, *_derived(kinds, message)}
    status = _status(kinds)
    what = f"{hub} answered with status {status}" if status else next(iter(kinds), "error")
    template = next((text for words, text in _RULES if words & known), "{what}: {said}. " + _STAYS + ".")
    whose = f"the account of the token in {asked.token_file}" if asked.token_file else "whoever asks without a token"
    return template.format(
        name=asked.repository,
        revision=asked.revision,
        hub=hub,
        said=_first(message, asked.endpoint),
        token=_token(asked),
        whose=whose,
        what=what,
    )


def _derived(kinds: Collection[str], message: str) -> Iterator[str]:
    """What only the text of an error tells, or several of its classes together."""
    if "ModuleNotFoundError" in kinds and "huggingface_hub" in message:
        yield "no library"
    if "Consistency check failed" in message:
        yield "cut off"
    if "LocalEntryNotFoundError" in kinds and _status(kinds) is None:
        yield "no answer"


def _token(asked: Asked) -> str:
    if asked.token_file:
        return f"Is the token in {asked.token_file} still good, and has its account been given access?"
    return "A private or gated repository needs a token: give the host the secret `hf-token` (llmgw_secrets)."


def _status(kinds: Collection[str]) -> Optional[str]:
    return next((kind[len("HTTP ") :] for kind in sorted(kinds) if kind.startswith("HTTP ")), None)


def without_password(text: str) -> str:
    """A text with addresses in it, without the names and passwords in those."""
    return re.sub(r"//[^/\s'\"]*@", "//", text)


def _first(message: str, endpoint: str) -> str:
    """The first words of an error that have a meaning, without secrets that an address may hold."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    first = re.sub(r"\?[^\s'\"]*", "", lines[0]) if lines else "no reason given"
    user = re.match(r"[^/]*//([^/]*)@", endpoint)
    if user:
        first = first.replace(user.group(1), "...")
    return without_password(first)[:300].rstrip(".:")
