# SPDX-License-Identifier: Apache-2.0
"""Requests and tokens a minute of one key: what is left of them, reserved before a request and settled after it (G5).

Each limit is a bucket that holds a minute's worth and fills again steadily. Pure; all times are loop seconds.
"""

from __future__ import annotations

from math import ceil

from llmgw.gateway.admit.limit_refusals import requests_per_minute, tokens_per_minute
from llmgw.gateway.wire.refusal import Refusal

MINUTE_S = 60.0
FIRST_ANSWER_TOKENS = 256
"""What an answer is reckoned to have until the key's own answers say more."""
MOST_ANSWER_TOKENS = 1_000_000
"""An engine that counts more miscounts: what it says must not bar the key for long."""
_LEARN = 0.1


def portion(limit: int, share: int) -> int:
    """This process's part of a limit on requests at a time that `share` processes keep together: rounded up, so that
    each may do something.
    """
    return max(1, ceil(limit / share))


class Bucket:
    """What of one limit is used. `limit`: a minute's worth at all processes, of which `share` keep it together."""

    __slots__ = ("_at", "_full", "_per_s", "_used", "limit", "share")

    def __init__(self, limit: int, share: int) -> None:
        self._used = self._at = self._per_s = 0.0
        self.resize(limit, share)

    def resize(self, limit: int, share: int) -> None:
        """Takes another limit and keeps what is used: of a lower one the same part, so that it is filled up as soon as
        it would have been.
        """
        before, self._per_s = self._per_s, limit / share / MINUTE_S
        if self._per_s < before:
            self._used *= self._per_s / before
        self.limit, self.share = limit, share
        # However small a part is, it must let one request through.
        self._full = max(1.0, limit / share)

    def asks(self, amount: float) -> float:
        """What is taken for `amount`: more than a full bucket is a full bucket, or it would never be let through; less
        than nothing is nothing, or it would fill the bucket.
        """
        return min(max(amount, 0.0), self._full)

    def lacks_s(self, amount: float, now: float) -> float:
        """Seconds until `amount` can be taken; 0 when it can be now."""
        passed = now - self._at
        if passed > 0:
            self._used = max(0.0, self._used - passed * self._per_s)
            self._at = now
        over = self._used + self.asks(amount) - self._full
        return max(0.0, over / self._per_s) if over > _ROUNDING else 0.0

    def take(self, amount: float) -> None:
        """Uses `amount`, asked for with `lacks_s` at the same moment."""
        self._used += self.asks(amount)

    def give(self, amount: float) -> None:
        """Uses `amount` less, or more when it is negative: then others have to wait until that is filled up."""
        self._used = max(0.0, self._used - amount)


_ROUNDING = 1e-6
"""What sums of floats may be off by."""


class KeyLimits:
    """One key's limits at this process. None: no limit of that kind.

    `admit` answers for all limits before it uses any, so that a refused request uses nothing. What it reserved is
    settled once: by `settle` when the request got its answer, by `give_back` when no engine ever saw it.
    """

    __slots__ = ("_answer", "_requests", "_tokens")

    def __init__(self, rpm: int | None = None, tpm: int | None = None, share: int = 1) -> None:
        self._requests: Bucket | None = None
        self._tokens: Bucket | None = None
        self._answer = float(FIRST_ANSWER_TOKENS)
        self.change(rpm, tpm, share)

    def change(self, rpm: int | None, tpm: int | None, share: int) -> None:
        """Takes limits a minute and the number of processes that keep them together. What is used stays used."""
        self._requests = _changed(self._requests, rpm, share)
        self._tokens = _changed(self._tokens, tpm, share)

    @property
    def counts_tokens(self) -> bool:
        """Whether anybody has to know how many tokens a request takes."""
        return self._tokens is not None

    def reckoned(self, prompt: int, max_tokens: int | None) -> int:
        """Tokens to reserve for a request: its prompt and an answer as long as this key's answers are, or as it allows
        itself. Some engines take a `max_tokens` below zero for no bound.
        """
        if max_tokens is None or not 0 <= max_tokens < self._answer:
            return prompt + ceil(self._answer)
        return prompt + max_tokens

    def admit(self, now: float, tokens: int) -> Refusal | None:
        """Reserves one request with so many tokens, or says why not and when to come again; then nothing is used."""
        requests, bucket = self._requests, self._tokens
        if requests is not None:
            after = requests.lacks_s(1, now)
            if after > 0:
                return requests_per_minute(requests.limit, after, requests.share)
        if bucket is not None:
            after = bucket.lacks_s(tokens, now)
            if after > 0:
                return tokens_per_minute(bucket.limit, tokens, after, bucket.share)
            bucket.take(tokens)
        if requests is not None:
            requests.take(1)
        return None

    def settle(self, reserved: int, used: int, answer: int | None = None) -> None:
        """The request took `used` tokens in and out, for which `reserved` were reserved; `answer`: those out alone, as
        far as they are known, by which the next ones are reckoned.
        """
        if self._tokens is not None:
            self._tokens.give(self._tokens.asks(reserved) - used)
        if answer is not None:
            self._answer += (min(answer, MOST_ANSWER_TOKENS) - self._answer) * _LEARN

    def give_back(self, reserved: int) -> None:
        """No engine saw the request: it counts for nothing."""
        if self._requests is not None:
            self._requests.give(1)
        if self._tokens is not None:
            self._tokens.give(self._tokens.asks(reserved))


def _changed(bucket: Bucket | None, limit: int | None, share: int) -> Bucket | None:
    if limit is None or bucket is None:
        return None if limit is None else Bucket(limit, share)
    bucket.resize(limit, share)
    return bucket
