# SPDX-License-Identifier: Apache-2.0
"""What is kept of one request when it is over: the access log's line, and the end of an explanation.

Nothing here is of a body but the model's name, and nothing is a secret: no key, no header, no query string.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

End = Literal["complete", "client_left", "cut", "refused"]
"""How a request ended: the whole answer was sent; the client left before that; the answer broke off after it had begun;
the gateway answered with an error of its own."""

MOST_CHARACTERS: Final = 256
"""Of a text that a client or an engine chose."""
DECIMALS: Final = 6
"""Of seconds: clocks tell more digits than they know."""
_REPLACEMENT: Final = "\ufffd"


class RequestRecord(msgspec.Struct, omit_defaults=True, gc=False):
    """One request. None is what the gateway does not know, and is absent where the record is written.

    `at`: Unix time of its first byte. `_s`: seconds. `path`: without the query. `model`: as the client named it. `key`:
    the name of its API key in the catalog. `endpoint`: the one that answered, or was tried last. `status`: as sent to
    the client. `reason`: why the gateway refused, or why the last attempt failed. `attempts`: engines that it was sent
    to. `queue_s`: waited for room. `first_byte_s`, `duration_s`: from its first byte to the answer's first and last.
    `bytes_in`, `bytes_out`: of the bodies, as the client sent and got them. Tokens: as the engine counted them.
    `trace_id`: of a valid traceparent.
    """

    request_id: str
    at: float
    method: str
    path: str
    service: str | None = None
    model: str | None = None
    key: str | None = None
    endpoint: str | None = None
    status: int | None = None
    reason: str | None = None
    stream: bool | None = None
    attempts: int | None = None
    queue_s: float | None = None
    first_byte_s: float | None = None
    duration_s: float | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    end: End | None = None
    trace_id: str | None = None

    def tidy(self) -> None:
        """Bounds what clients and engines chose, so that what is kept is bounded, and rounds seconds.

        What is not printable (control and direction characters, halves of surrogate pairs) becomes U+FFFD: a terminal
        shows the line as it is.
        """
        texts = f"{self.method}{self.path}{self.model}{self.reason}"
        if len(texts) > MOST_CHARACTERS or not texts.isprintable():
            self.method = _shown(self.method)
            self.path = _shown(self.path)
            self.model = None if self.model is None else _shown(self.model)
            self.reason = None if self.reason is None else _shown(self.reason)
        if self.queue_s is not None:
            self.queue_s = round(self.queue_s, DECIMALS)
        if self.first_byte_s is not None:
            self.first_byte_s = round(self.first_byte_s, DECIMALS)
        if self.duration_s is not None:
            self.duration_s = round(self.duration_s, DECIMALS)


def _shown(text: str) -> str:
    if len(text) > MOST_CHARACTERS:
        text = text[:MOST_CHARACTERS]
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _REPLACEMENT for character in text)
