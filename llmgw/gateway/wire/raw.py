# SPDX-License-Identifier: Apache-2.0
"""Headers as they are on the wire: names in lower case, values without spaces around them, duplicates in order."""

from __future__ import annotations

RawHeaders = list[tuple[bytes, bytes]]
