# SPDX-License-Identifier: Apache-2.0
"""Who asks: client keys and the admin token, known by their hashes alone and compared in constant time (G8)."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from hashlib import sha256

from llmgw.gateway.refusal import NO_KEY, WRONG_KEY, Refusal
from llmgw.model.replica import ApiKeySpec

BEARER = b"bearer "


class LiveKey:
    """A client's key and what it has in flight."""

    __slots__ = ("_digest", "in_flight", "spec")

    def __init__(self, spec: ApiKeySpec) -> None:
        self.spec = spec
        self.in_flight = 0
        self._digest = spec.sha256.lower().encode()

    @property
    def max_concurrency(self) -> int | None:
        """Requests of this key that may be in flight at this gateway."""
        return self.spec.max_concurrency

    def may_use(self, service: str) -> bool:
        """Whether the key is for that service; a key without a list is for all."""
        return not self.spec.services or service in self.spec.services

    def matches(self, digest: bytes) -> bool:
        """Whether that is the hash of this key."""
        return hmac.compare_digest(self._digest, digest)


class Keyring:
    """All keys. Without any, every client is let in."""

    def __init__(self) -> None:
        self._keys: tuple[LiveKey, ...] = ()

    @property
    def open(self) -> bool:
        """Whether no key is asked for."""
        return not self._keys

    def swap(self, specs: Iterable[ApiKeySpec]) -> None:
        """Takes new keys; those that stay keep their count of requests in flight."""
        old = {key.spec.sha256: key for key in self._keys}
        keys = []
        for spec in specs:
            key = old.get(spec.sha256) or LiveKey(spec)
            key.spec = spec
            keys.append(key)
        self._keys = tuple(keys)

    def find(self, authorization: bytes | None) -> LiveKey | Refusal:
        """The key in an Authorization header, or why there is none. Every key is compared, whichever matches."""
        secret = bearer(authorization)
        if secret is None:
            return NO_KEY
        digest = sha256(secret).hexdigest().encode()
        found = None
        for key in self._keys:
            if key.matches(digest):
                found = key
        return found or WRONG_KEY


def bearer(authorization: bytes | None) -> bytes | None:
    """The secret of `Bearer SECRET`, or None."""
    if authorization is None or authorization[: len(BEARER)].lower() != BEARER:
        return None
    return authorization[len(BEARER) :].strip() or None


def is_secret(secret: bytes, digest: str) -> bool:
    """Whether `digest` is the SHA-256 of `secret`, in hexadecimal."""
    return hmac.compare_digest(sha256(secret).hexdigest().encode(), digest.lower().encode())
