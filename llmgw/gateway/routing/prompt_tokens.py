# SPDX-License-Identifier: Apache-2.0
"""How many tokens a request's body stands for, by its bytes alone. Pure.

Four bytes a token is right within a third for text. Images and recordings in base64 would count a hundred times what an
engine makes of them. So a long body is looked at in a few places: what share of them lies in base64 is left out.
"""

from __future__ import annotations

from typing import Final

BYTES_PER_TOKEN: Final = 4
FILES_TOKENS: Final = 2048
"""Of all images and recordings of a body together; engines differ."""
LONG_BYTES: Final = 16 * 1024
PLACES: Final = 24
PLACE_BYTES: Final = 48
"""Text has something else than letters, digits and `+/=` within so many bytes."""
_BASE64: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/="


def estimated_tokens(body: bytes) -> int:
    """Tokens of a JSON body, its fields and quotes among them."""
    size = len(body)
    if size < LONG_BYTES:
        return size // BYTES_PER_TOKEN
    step = (size - PLACE_BYTES) // (PLACES - 1)
    files = 0
    for start in range(0, step * PLACES, step):
        if not body[start : start + PLACE_BYTES].strip(_BASE64):
            files += 1
    return size * (PLACES - files) // PLACES // BYTES_PER_TOKEN + (FILES_TOKENS if files else 0)
