# SPDX-License-Identifier: Apache-2.0
"""Who asks: client keys and the admin token, known by their hashes alone and compared in constant time (G8)."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator
from hashlib import sha256

from llmgw.gateway.admit.limits import KeyLimits, portion
from llmgw.gateway.wire.refusal import NO_KEY, WRONG_KEY, Refusal
from llmgw.model.replica import ApiKeySpec

BEARER = b"bearer "


class LiveKey:
    """A client's key, what it has in flight, and what it has left of its limits.

    `in_flight` counts from admission on, those who wait too. `elsewhere`: what the key has in flight at the other
    processes of this host; None: not told, and then each process has its part of the limit.
    """

    __slots__ = ("_of_host", "_of_process", "digest", "elsewhere", "in_flight", "limits", "services", "spec")

    def __init__(self, spec: ApiKeySpec) -> None:
        self.digest = spec.sha256.lower()
        self.in_flight = 0
        self.elsewhere: int | None = None
        self.limits = KeyLimits()
        self.update(spec)

    def update(self, spec: ApiKeySpec, gateways: int = 1, workers: int = 1) -> None:
        """Takes what a newer bundle says of the key. What it has used stays used."""
        self.spec = spec
        self.services = frozenset(spec.services)
        limit = spec.max_concurrency
        self._of_host = None if limit is None else portion(limit, gateways)
        self._of_process = None if limit is None else portion(limit, gateways * workers)
        self.limits.change(spec.requests_per_minute, spec.tokens_per_minute, gateways * workers)

    @property
    def max_concurrency(self) -> int | None:
        """Requests of this key that may be in flight at this process now."""
        if self._of_host is None or self.elsewhere is None:
            return self._of_process
        return self._of_host - self.elsewhere

    @property
    def name(self) -> str:
        """Its name in the catalog."""
        return self.spec.name

    @property
    def priority(self) -> int:
        """Of two requests that wait, the one of higher priority goes first."""
        return self.spec.priority

    def may_use(self, service: str) -> bool:
        """Whether the key is for that service; a key without a list is for all."""
        return not self.services or service in self.services


class Keyring:
    """All keys. Without any, every client is let in."""

    __slots__ = ("_by_digest",)

    def __init__(self) -> None:
        self._by_digest: dict[str, LiveKey] = {}

    def __iter__(self) -> Iterator[LiveKey]:
        return iter(self._by_digest.values())

    @property
    def open(self) -> bool:
        """Whether no key is asked for."""
        return not self._by_digest

    def swap(self, specs: Iterable[ApiKeySpec], gateways: int = 1, workers: int = 1) -> None:
        """Takes new keys. Those that stay keep their requests in flight and what they have used of their limits, which
        are for `gateways` hosts with `workers` processes each.
        """
        old, self._by_digest = self._by_digest, {}
        for spec in specs:
            digest = spec.sha256.lower()
            key = old.get(digest) or LiveKey(spec)
            key.update(spec, gateways, workers)
            self._by_digest[digest] = key

    def find(self, authorization: bytes | None, api_key: bytes | None = None) -> LiveKey | Refusal:
        """The key in an Authorization header or, where that has none, in `x-api-key`; or why there is none.

        It is looked up by its hash, of which nobody who guesses at keys can choose a single digit, and then compared.
        """
        secret = bearer(authorization) or (api_key and api_key.strip())
        if not secret:
            return NO_KEY
        digest = sha256(secret).hexdigest()
        key = self._by_digest.get(digest)
        return key if key is not None and hmac.compare_digest(key.digest, digest) else WRONG_KEY


def bearer(authorization: bytes | None) -> bytes | None:
    """The secret of `Bearer SECRET`, or None."""
    if authorization is None or authorization[: len(BEARER)].lower() != BEARER:
        return None
    return authorization[len(BEARER) :].strip() or None


def is_secret(secret: bytes, digest: str) -> bool:
    """Whether `digest` is the SHA-256 of `secret`, in hexadecimal."""
    return hmac.compare_digest(sha256(secret).hexdigest().encode(), digest.lower().encode())
