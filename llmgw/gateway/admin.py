# SPDX-License-Identifier: Apache-2.0
"""The admin listener's application: FastAPI with the admin API, the metrics and the console. Read-only (G9, G10)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.process_collector import ProcessCollector
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from llmgw.gateway.admin_models import (
    EndpointsDocument,
    ErrorDetail,
    ErrorDocument,
    FindingsDocument,
    NodesDocument,
    PlanDocument,
    ReplicasDocument,
    RoutesDocument,
    ServicesDocument,
    StatusDocument,
)
from llmgw.gateway.fleet_metrics import FleetCollector
from llmgw.gateway.metrics import TrafficCollector
from llmgw.gateway.views import Views

API = "/api/v1"
ABOUT = "What this gateway serves by, and what it sees. Read-only; sizes in bytes, times in seconds of Unix time."

Pages = Callable[[FastAPI, Callable[[], dict[str, Any]]], None]
"""Adds the console's pages; its second argument gives the API's documents by name, as plain data."""

log = structlog.get_logger()


def admin_app(views: Views, pages: Pages) -> FastAPI:
    """The application. Its API's description is at /api/v1/openapi.json; no page of it needs the internet."""
    app = FastAPI(
        title="llmgw gateway",
        description=ABOUT,
        version=views.version,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for path, model, read in _documents(views):
        _add(app, path, model, read)
    _add_metrics(app, views)
    _add_health(app, views)
    _one_error_shape(app)
    pages(app, lambda: {path: read().model_dump(mode="json") for path, _model, read in _documents(views)})
    return app


def _documents(views: Views) -> list[tuple[str, type[BaseModel], Callable[[], BaseModel]]]:
    return [
        ("status", StatusDocument, views.status),
        ("endpoints", EndpointsDocument, views.endpoints),
        ("routes", RoutesDocument, views.routes),
        ("services", ServicesDocument, views.services),
        ("replicas", ReplicasDocument, views.replicas),
        ("nodes", NodesDocument, views.nodes),
        ("plan", PlanDocument, views.plan),
        ("findings", FindingsDocument, views.findings),
    ]


def _add(app: FastAPI, path: str, model: type[BaseModel], read: Callable[[], BaseModel]) -> None:
    async def answer() -> Response:
        return Response(read().model_dump_json(), media_type="application/json")

    app.add_api_route(
        f"{API}/{path}",
        answer,
        methods=["GET"],
        name=path,
        response_model=model,
        summary=path.capitalize(),
        description=read.__doc__,
        responses={status: {"model": ErrorDocument} for status in (401, 403)},
    )


def _add_metrics(app: FastAPI, views: Views) -> None:
    registry = CollectorRegistry()
    registry.register(TrafficCollector(views.plane, views.version))
    registry.register(FleetCollector(views.plane.table))
    ProcessCollector(registry=registry)

    async def metrics(request: Request) -> Response:
        encoder, content_type = choose_encoder(request.headers.get("accept", ""))
        text = await asyncio.to_thread(encoder, registry)
        return Response(text, headers={"content-type": content_type})

    app.add_api_route("/metrics", metrics, methods=["GET"], include_in_schema=False)


def _add_health(app: FastAPI, views: Views) -> None:
    async def healthz() -> dict[str, object]:
        return {"status": "draining" if views.plane.draining else "ok", "generation": views.status().generation}

    app.add_api_route("/healthz", healthz, methods=["GET"], include_in_schema=False)


def _one_error_shape(app: FastAPI) -> None:
    def shaped(status: int, code: str, message: str) -> Response:
        document = ErrorDocument(error=ErrorDetail(code=code, message=message))
        return Response(document.model_dump_json(), status_code=status, media_type="application/json")

    async def http_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for it alone
        code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
        return shaped(error.status_code, code, str(error.detail))

    async def wrong_argument(_request: Request, error: Exception) -> Response:
        return shaped(422, "wrong-argument", str(error))

    async def bug(request: Request, error: Exception) -> Response:
        log.error("admin request failed", path=request.url.path, exc_info=error)
        return shaped(500, "internal-error", "The gateway failed on this request; its log says why.")

    handlers: dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
        HTTPException: http_error,
        RequestValidationError: wrong_argument,
        Exception: bug,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
