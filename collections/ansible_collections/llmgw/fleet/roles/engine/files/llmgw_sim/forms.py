# SPDX-License-Identifier: Apache-2.0
"""Reading multipart/form-data, as forgiving as the parser under FastAPI: of two fields, the last one counts."""

from __future__ import annotations

import re
from typing import Any

from llmgw_sim.web import bad_request

_BOUNDARY = re.compile(r'multipart/form-data\s*;.*\bboundary="?([^";]+)"?', re.IGNORECASE)
_NAME = re.compile(rb'content-disposition:[^\r\n]*[; ]name="?([^";\r\n]+)"?', re.IGNORECASE)
_FILE = re.compile(rb"content-disposition:[^\r\n]*[; ]filename\*?=", re.IGNORECASE)


def read_form(content_type: str, body: bytes) -> dict[str, Any]:
    """The fields as text, files as bytes, a list of them where the name ends in []. Raises ApiError 400."""
    kind = _BOUNDARY.match(content_type)
    if kind is None:
        raise bad_request("the body must be multipart/form-data with a boundary")
    parts = (b"\r\n" + body).split(b"\r\n--" + kind.group(1).encode())
    if len(parts) < 2 or not parts[-1].startswith(b"--"):  # noqa: PLR2004 - what comes before, and the end
        raise bad_request("the form does not end")
    found: dict[str, Any] = {}
    for part in parts[1:-1]:
        head, _empty, content = part.partition(b"\r\n\r\n")
        named = _NAME.search(head)
        if named is None:
            raise bad_request("a part of the form has no name")
        name = named.group(1).decode("utf-8", "replace")
        value = content if _FILE.search(head) else content.decode("utf-8", "replace")
        if name.endswith("[]"):
            found.setdefault(name, []).append(value)
        else:
            found[name] = value
    return found
