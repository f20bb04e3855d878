# SPDX-License-Identifier: Apache-2.0
"""The admin API's documents about single requests, asked for over HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest
from fastapi import FastAPI

from llmgw.gateway.admin.admin_errors import give_errors_one_shape
from llmgw.gateway.admin.admin_models import AttemptItem, ExplainDocument, RecordItem, RequestItem, TermsItem
from llmgw.gateway.admin.request_documents import add_request_documents
from llmgw.gateway.admin.request_views import KeptHere, RequestViews
from llmgw.gateway.records.explain import Attempt, Explained, Explanations
from llmgw.gateway.records.record import RequestRecord
from llmgw.gateway.routing.cost import Terms
from llmgw.gateway.table import Table


class Generation:
    """Of a gateway's processes, the only thing that these documents ask for."""

    generation = 7


def app_of(explanations: Explanations) -> FastAPI:
    app = FastAPI()
    processes: Any = Generation()
    requests = RequestViews(KeptHere(explanations), processes, Table(lambda _name: None))
    add_request_documents(app, "/api/v1", requests)
    give_errors_one_shape(app)
    return app


def get(explanations: Explanations, path: str) -> tuple[int, Any]:
    async def ask() -> tuple[int, Any]:
        transport = httpx.ASGITransport(app_of(explanations))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = await client.get(path)
            return answer.status_code, answer.json()

    return asyncio.run(ask())


@pytest.fixture
def explanations() -> Explanations:
    explanations = Explanations()
    one = Terms("chat/0@n1", 0.1, 0.2, 0.0, 0.05, 0.0, 1.0, 0.35, 128, 2, session=True, reported=True)
    explained = explanations.begin("first", 1.0, "chat", asked=True)
    explained.chose("chat/0@n1", [one], [("chat/1@n2", "ejected")], service="chat", policy="cost", after_s=0.01)
    explained.ended(RequestRecord("first", 1.0, "POST", "/v1/completions", status=200, end="complete"))
    explanations.begin("second", 2.0, "other", asked=False)
    return explanations


def test_an_explanation_tells_the_cost_of_each_candidate_by_term(explanations: Explanations) -> None:
    status, document = get(explanations, "/api/v1/explain/first")
    assert status == 200
    assert (document["format_version"], document["generation"], document["asked"]) == (1, 7, True)
    (attempt,) = document["attempts"]
    assert (attempt["policy"], attempt["endpoint"], attempt["considered"]) == ("cost", "chat/0@n1", 1)
    assert attempt["left_out"] == {"chat/1@n2": "ejected"}
    (candidate,) = attempt["candidates"]
    assert (candidate["queue_s"], candidate["prefill_s"], candidate["total_s"]) == (0.1, 0.2, 0.35)
    assert (document["record"]["status"], document["record"]["prompt_tokens"]) == (200, None)


def test_a_request_of_which_nothing_is_kept_is_404_and_says_how_to_keep_one(explanations: Explanations) -> None:
    status, document = get(explanations, "/api/v1/explain/third")
    assert status == 404
    assert document["error"]["code"] == "not-found"
    assert "newest of 1 % of the requests" in document["error"]["message"]
    assert "x-llmgw-explain: 1" in document["error"]["message"]


@pytest.mark.parametrize("name", ["a:b.c_d-e", "%2e%2e", "x" * 128, "ä", "<script>", "\x00"])
def test_any_id_can_be_asked_for(explanations: Explanations, name: str) -> None:
    explanations.begin(name, 3.0, "chat", asked=False)
    status, document = get(explanations, f"/api/v1/explain/{quote(name, safe='')}")
    assert (status, document["request_id"]) == (200, name)


def test_recent_requests_come_newest_first_and_by_service(explanations: Explanations) -> None:
    status, document = get(explanations, "/api/v1/requests")
    assert status == 200
    assert document["share"] == 0.01
    assert [one["request_id"] for one in document["requests"]] == ["second", "first"]
    assert [(one["endpoint"], one["attempts"]) for one in document["requests"]] == [(None, 0), ("chat/0@n1", 1)]
    assert document["requests"][0]["record"] is None
    status, document = get(explanations, "/api/v1/requests?service=chat&limit=1")
    assert [one["request_id"] for one in document["requests"]] == ["first"]


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "x", "1e3", ""])
def test_a_limit_out_of_bounds_is_refused_in_the_apis_error_shape(explanations: Explanations, limit: str) -> None:
    status, document = get(explanations, f"/api/v1/requests?limit={limit}")
    assert status == 422
    assert document["error"]["code"] == "wrong-argument"
    assert "limit" in document["error"]["message"]


def test_the_api_describes_both_documents_and_their_errors() -> None:
    described = app_of(Explanations()).openapi()["paths"]
    assert set(described["/api/v1/requests"]["get"]["responses"]) == {"200", "401", "403", "422"}
    assert set(described["/api/v1/explain/{request_id}"]["get"]["responses"]) == {"200", "401", "403", "404", "422"}


def test_documents_have_every_field_that_is_kept() -> None:
    assert set(RecordItem.model_fields) == {field.name for field in msgspec.structs.fields(RequestRecord)}
    assert set(TermsItem.model_fields) == {field.name for field in fields(Terms)}
    assert set(AttemptItem.model_fields) == {field.name for field in msgspec.structs.fields(Attempt)}
    kept = {field.name for field in msgspec.structs.fields(Explained)}
    assert set(ExplainDocument.model_fields) == kept | {"format_version", "generation"}
    assert set(RequestItem.model_fields) == kept | {"endpoint"}
