# SPDX-License-Identifier: Apache-2.0
"""What the gateway answers to a request that is over a limit or waited in vain: 429, and when to come again (G5)."""

from __future__ import annotations

from math import ceil

from llmgw.gateway.wire.refusal import Refusal

SOONEST_S = 1
LATEST_S = 60
"""Nobody is told to come later than this: what was reckoned may be wrong by then."""
UNKNOWN_S = 5
"""What is told while nothing is known yet by which it could be reckoned."""

_TOO_MANY = 429


def retry_after(seconds: float | None) -> int:
    """Whole seconds for Retry-After, rounded up, from 1 to 60; None: not known."""
    if seconds is None:
        return UNKNOWN_S
    return ceil(min(max(seconds, SOONEST_S), LATEST_S))


def queue_full(model: str, wait_s: float | None) -> Refusal:
    """As many wait for this model as may, and none of them gives way. `wait_s`: until those are served."""
    text = f"The model `{model}` is busy, and as many requests as may wait for it do. Try again later."
    return Refusal(_TOO_MANY, "queue_full", text, retry_after_s=retry_after(wait_s))


def queue_timeout(model: str, waited_s: float, wait_s: float | None) -> Refusal:
    """The request's time in the line is over. `wait_s`: until those are served who still wait."""
    text = f"The model `{model}` is busy: the request waited {waited_s:.3g} s for its turn in vain. Try again later."
    return Refusal(_TOO_MANY, "queue_timeout", text, retry_after_s=retry_after(wait_s))


def requests_per_minute(limit: int, after_s: float, share: int = 1) -> Refusal:
    """The key has used up its requests. `limit`: as in the catalog, over all gateways; `share`: processes of them all,
    among which it is divided.
    """
    if share == 1:
        text = f"This API key may make {limit:,} requests a minute, and has made them. Try again later."
    else:
        text = (
            f"This API key may make {limit:,} requests a minute, {_divided(share)}, and the one that got this request"
            " may let no more through now. Try again later."
        )
    return Refusal(_TOO_MANY, "key_requests_per_minute", text, retry_after_s=retry_after(after_s))


def tokens_per_minute(limit: int, tokens: int, after_s: float, share: int = 1) -> Refusal:
    """The key has too few tokens left for `tokens` more, prompt and answer together. `share`: as above."""
    if share == 1:
        left = "and has too few left for this request"
    else:
        left = f"{_divided(share)}, and the one that got this request has too few left for it"
    text = (
        f"This API key may use {limit:,} tokens a minute, in and out, {left} (about {tokens:,} with its answer)."
        " Try again later."
    )
    return Refusal(_TOO_MANY, "key_tokens_per_minute", text, retry_after_s=retry_after(after_s))


def _divided(share: int) -> str:
    return f"divided evenly among the {share} processes of the gateways"
