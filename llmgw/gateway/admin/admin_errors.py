# SPDX-License-Identifier: Apache-2.0
"""The admin API's errors, all of one shape, whatever found them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from llmgw.gateway.admin.admin_models import ErrorDetail, ErrorDocument

log = structlog.get_logger()


def give_errors_one_shape(app: FastAPI) -> None:
    """Has the application answer every error with an ErrorDocument."""
    handlers: dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
        HTTPException: _http_error,
        RequestValidationError: _wrong_argument,
        Exception: _bug,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it alone
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
    return _shaped(error.status_code, code, str(error.detail), error.headers)


async def _wrong_argument(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it alone
    wrong = (f"{one['loc'][-1]}: {one['msg'].lower()}" for one in error.errors())
    return _shaped(422, "wrong-argument", "; ".join(wrong))


async def _bug(request: Request, error: Exception) -> Response:
    log.error("admin request failed", path=request.url.path, exc_info=error)
    return _shaped(500, "internal-error", "The gateway failed on this request; its log says why.")


def _shaped(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    document = ErrorDocument(error=ErrorDetail(code=code, message=message))
    return Response(document.model_dump_json(), status, headers, media_type="application/json")
