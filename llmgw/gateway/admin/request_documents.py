# SPDX-License-Identifier: Apache-2.0
"""The admin API's paths about single requests: the newest whose routing is kept, and why one went where it went."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Response
from starlette.exceptions import HTTPException

from llmgw.gateway.admin.admin_models import ErrorDocument, ExplainDocument, RequestsDocument
from llmgw.gateway.admin.request_views import DEFAULT_LIMIT, MOST_LISTED, RequestViews


def add_request_documents(app: FastAPI, api: str, requests: RequestViews) -> None:
    """Adds `requests` and `explain/{request_id}` below the path `api`."""

    async def recent(
        limit: Annotated[int, Query(ge=1, le=MOST_LISTED, description="How many at the most.")] = DEFAULT_LIMIT,
        service: Annotated[str | None, Query(description="Only those that asked for it or came to it.")] = None,
    ) -> Response:
        document = await requests.recent(limit, service)
        return Response(document.model_dump_json(), media_type="application/json")

    async def explain(request_id: str) -> Response:
        document = await requests.explain(request_id)
        if document is None:
            raise HTTPException(404, requests.not_kept())
        return Response(document.model_dump_json(), media_type="application/json")

    errors: dict[int | str, dict[str, Any]] = {status: {"model": ErrorDocument} for status in (401, 403, 422)}
    app.add_api_route(
        f"{api}/requests",
        recent,
        name="requests",
        response_model=RequestsDocument,
        summary="Requests",
        description=requests.recent.__doc__,
        responses=errors,
    )
    app.add_api_route(
        f"{api}/explain/{{request_id}}",
        explain,
        name="explain",
        response_model=ExplainDocument,
        summary="Explain",
        description=requests.explain.__doc__,
        responses={**errors, 404: {"model": ErrorDocument}},
    )
