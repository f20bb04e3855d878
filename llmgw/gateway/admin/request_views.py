# SPDX-License-Identifier: Apache-2.0
"""The admin API's documents about single requests: those whose routing is kept, wherever in the gateway they ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from llmgw.gateway.admin.admin_models import ExplainDocument, RequestsDocument
from llmgw.gateway.processes.processes import Processes
from llmgw.gateway.records.explain import Document, Explanations
from llmgw.gateway.table import Table

DEFAULT_LIMIT: Final = 100
MOST_LISTED: Final = 1_000


class Kept(Protocol):
    """Where explanations are: in this process, or in workers that are asked."""

    async def recent(self, limit: int, service: str | None) -> list[Document]:
        """As `Explanations.recent`."""

    async def find(self, request_id: str) -> Document | None:
        """As `Explanations.find`."""


@dataclass(frozen=True, slots=True)
class KeptHere:
    """The explanations of this very process."""

    explanations: Explanations

    async def recent(self, limit: int, service: str | None) -> list[Document]:
        """As `Explanations.recent`."""
        return self.explanations.recent(limit, service)

    async def find(self, request_id: str) -> Document | None:
        """As `Explanations.find`."""
        return self.explanations.find(request_id)


@dataclass(frozen=True, slots=True)
class RequestViews:
    """The documents about requests of one gateway."""

    kept: Kept
    processes: Processes
    table: Table

    async def recent(self, limit: int, service: str | None) -> RequestsDocument:
        """The newest requests whose routing is kept, newest first. Those that asked for it with the header
        `x-llmgw-explain: 1` are among them.
        """
        return RequestsDocument.model_validate(
            {
                "generation": self.processes.generation,
                "share": self.table.gateway.explain_share,
                "requests": await self.kept.recent(limit, service),
            }
        )

    async def explain(self, request_id: str) -> ExplainDocument | None:
        """Why a request went where it went: the cost of each candidate in seconds, by term. Of two requests with one
        id, the newer one. 404 when nothing is kept of it.
        """
        found = await self.kept.find(request_id)
        if found is None:
            return None
        return ExplainDocument.model_validate({"generation": self.processes.generation, **found})

    def not_kept(self) -> str:
        """What to say of a request of which nothing is kept."""
        percent = f"{self.table.gateway.explain_share * 100:g}"
        return (
            f"Nothing is kept of a request with this id. The newest of {percent} % of the requests are kept, and those "
            "sent with the header `x-llmgw-explain: 1`."
        )
