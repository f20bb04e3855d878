# SPDX-License-Identifier: Apache-2.0
"""Refusals in Anthropic's shape."""

from __future__ import annotations

import json

import pytest

from llmgw.gateway.wire.anthropic_errors import error_body
from llmgw.gateway.wire.refusal import Refusal


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
        (408, "timeout_error"),
        (413, "request_too_large"),
        (415, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
    ],
)
def test_the_type_follows_the_status(status: int, kind: str) -> None:
    message = 'It says "no" twice.'
    found = json.loads(error_body(Refusal(status, "some_code", message)))
    assert found == {"type": "error", "error": {"type": kind, "message": message}}
