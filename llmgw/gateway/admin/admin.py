# SPDX-License-Identifier: Apache-2.0
"""The admin listener's application: FastAPI with the admin API, the metrics and the console. Read-only (G9, G10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.process_collector import ProcessCollector
from pydantic import BaseModel

from llmgw.gateway.admin.admin_errors import give_errors_one_shape
from llmgw.gateway.admin.admin_models import (
    EndpointsDocument,
    ErrorDocument,
    FindingsDocument,
    NodesDocument,
    PlanDocument,
    ReplicasDocument,
    RoutesDocument,
    ServicesDocument,
    StatusDocument,
)
from llmgw.gateway.admin.fleet_metrics import FleetCollector
from llmgw.gateway.admin.metrics import TrafficCollector
from llmgw.gateway.admin.request_documents import add_request_documents
from llmgw.gateway.admin.request_views import RequestViews
from llmgw.gateway.admin.views import Views

API = "/api/v1"
ABOUT = "What this gateway serves by, and what it sees. Read-only; sizes in bytes, times in seconds of Unix time."

Pages = Callable[[FastAPI, Callable[[], dict[str, Any]]], None]
"""Adds the console's pages; its second argument gives the API's documents by name, as plain data."""


def admin_app(views: Views, pages: Pages, requests: RequestViews | None = None) -> FastAPI:
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
    if requests is not None:
        add_request_documents(app, API, requests)
    _add_metrics(app, views)
    _add_health(app, views)
    give_errors_one_shape(app)
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
    registry.register(TrafficCollector(views.plane, views.processes, views.version))
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
