# SPDX-License-Identifier: Apache-2.0
"""Why requests went where they went: kept for a share of them, and for those that ask for it, in a bounded ring.

What is kept is told as plain documents, so that a worker's can be sent to the process that answers for all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final, Literal

import msgspec

from llmgw.gateway.records.record import RequestRecord
from llmgw.gateway.routing.cost import Terms

MOST_KEPT: Final = 1_000
"""Explanations that a process holds: 4 MB with eight candidates each."""
MOST_ATTEMPTS: Final = 8
"""Attempts of one request that are kept: the first ones."""
MOST_CANDIDATES: Final = 8
"""Endpoints of one attempt whose terms are kept: the chosen one, and the cheapest of the others."""
MOST_LEFT_OUT: Final = 16

Document = dict[str, Any]
"""Strings, numbers, lists and dictionaries. What is not known is None or absent."""

Via = Literal["split", "fallback"]
"""Why another service answers than the one that was asked for: it has a share of the requests, or stands in."""

_WHOLE: Final = 1 << 64
GOLDEN: Final = 0x9E3779B97F4A7C15
"""`_WHOLE` divided by the golden ratio."""
ROOT_OF_TWO: Final = 0x6A09E667F3BCC909
"""The same part of `_WHOLE` that the square root of two is more than one."""


class Sampler:
    """Says which requests belong to a sample.

    The multiples of an irrational number, without what is before the point, are spread evenly between 0 and 1: after
    any number of requests the sample is off its share by a few requests at most, and no rhythm of clients falls in step
    with it, as it would with every hundredth request. `seed` says where it begins. Two samples of the same requests
    need a `step` of their own: else one of them has all or nothing of what the other one takes.
    """

    __slots__ = ("_at", "_below", "_share", "_step")

    def __init__(self, share: float, seed: int = 0, step: int = GOLDEN) -> None:
        self._at = seed % _WHOLE
        self._step = step
        self.share = share

    @property
    def share(self) -> float:
        """The share of requests that are taken, from 0 to 1. May be set."""
        return self._share

    @share.setter
    def share(self, share: float) -> None:
        self._share = share
        self._below = round(share * _WHOLE)

    def take(self) -> bool:
        """Whether the next request is one of the sample."""
        self._at = at = (self._at + self._step) % _WHOLE
        return at < self._below


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """One choice among a service's endpoints.

    `after_s`: seconds after the request's first byte. `considered`: how many endpoints could have been chosen.
    `candidates`: terms of some of them, the cheapest first. `left_out`: endpoints that could not be chosen, and why: a
    state, or `tried` where an earlier attempt failed there.
    """

    service: str
    policy: str
    endpoint: str
    after_s: float
    considered: int
    candidates: list[Terms]
    left_out: dict[str, str]


class Explained(msgspec.Struct, gc=False):
    """One request, while it runs and after. `service`: the one that was asked for; `via`: why another one answers, or
    refuses (None: none does). `asked`: the client asked for the explanation. `record`: None until it is over.
    """

    request_id: str
    at: float
    service: str
    asked: bool
    attempts: list[Attempt]
    via: Via | None = None
    record: RequestRecord | None = None

    def chose(
        self,
        endpoint: str,
        terms: Sequence[Terms],
        left_out: Iterable[tuple[str, str]],
        *,
        service: str,
        policy: str,
        after_s: float,
    ) -> None:
        """Takes a choice in. `terms` are of all that could be chosen, the cheapest first."""
        if len(self.attempts) >= MOST_ATTEMPTS:
            return
        others = list(islice((one for one in terms if one.endpoint != endpoint), MOST_CANDIDATES - 1))
        chosen = [one for one in terms if one.endpoint == endpoint]
        self.attempts.append(
            Attempt(
                service=service,
                policy=policy,
                endpoint=endpoint,
                after_s=round(after_s, 6),
                considered=len(terms),
                candidates=sorted(chosen + others, key=lambda one: (one.total_s, one.endpoint)),
                left_out=dict(islice(left_out, MOST_LEFT_OUT)),
            )
        )

    def ended(self, record: RequestRecord) -> None:
        """The request is over."""
        record.tidy()
        self.record = record


class Explanations:
    """The newest explanations of one process. Whatever clients ask for, an older one goes for each that comes."""

    __slots__ = ("_kept",)

    def __init__(self, most_kept: int = MOST_KEPT) -> None:
        self._kept: deque[Explained] = deque(maxlen=most_kept)

    def __len__(self) -> int:
        return len(self._kept)

    def begin(self, request_id: str, at: float, service: str, *, asked: bool, via: Via | None = None) -> Explained:
        """Keeps one more request. `at`: Unix time."""
        explained = Explained(request_id, at, service, asked, [], via)
        self._kept.append(explained)
        return explained

    def find(self, request_id: str) -> Document | None:
        """The newest request of this id, whole."""
        for explained in reversed(self._kept):
            if explained.request_id == request_id:
                return plain(explained)
        return None

    def recent(self, limit: int, service: str | None = None) -> list[Document]:
        """The newest requests, newest first, without their candidates; of one service, or of all."""
        fitting = (one for one in reversed(self._kept) if service is None or _of(one, service))
        return [_brief(explained) for explained in islice(fitting, limit)]


def plain(explained: Explained) -> Document:
    """Everything that is kept of it."""
    document: Document = msgspec.to_builtins(explained)
    return document


def newest(of_each: Iterable[Iterable[Document]], limit: int) -> list[Document]:
    """What several processes' `recent` told as one list, newest first."""
    every = [document for documents in of_each for document in documents]
    every.sort(key=itemgetter("request_id"))
    every.sort(key=itemgetter("at"), reverse=True)
    return every[:limit]


def _of(explained: Explained, service: str) -> bool:
    """Whether the request asked for the service, or came to it by a split or as a fallback."""
    record = explained.record
    return (
        explained.service == service
        or any(attempt.service == service for attempt in explained.attempts)
        or (record is not None and record.service == service)
    )


def _brief(explained: Explained) -> Document:
    attempts = explained.attempts
    return {
        "request_id": explained.request_id,
        "at": explained.at,
        "service": explained.service,
        "via": explained.via,
        "asked": explained.asked,
        "endpoint": attempts[-1].endpoint if attempts else None,
        "attempts": len(attempts),
        "record": None if explained.record is None else msgspec.to_builtins(explained.record),
    }
