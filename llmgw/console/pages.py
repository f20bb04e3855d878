# SPDX-License-Identifier: Apache-2.0
"""The console's pages and their style sheet, added to the admin application."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import resources
from typing import Any

from fastapi import FastAPI, Response
from fastapi.responses import RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from llmgw.console.words import ago, device_counts, gigabytes

Documents = Callable[[], dict[str, Any]]
"""The admin API's documents by name (status, services, nodes, findings, ...), as plain data."""

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def add_pages(app: FastAPI, documents: Documents) -> None:
    """Adds /admin and /admin/console.css to `app`, and the way to it from / and /admin/."""
    environment = Environment(
        loader=PackageLoader("llmgw.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({"gigabytes": gigabytes, "device_counts": device_counts})
    overview = environment.get_template("overview.html")
    style = resources.files("llmgw.console").joinpath("static/console.css").read_text(encoding="utf-8")

    async def page() -> Response:
        now = time.time()
        text = overview.render(documents(), ago=lambda moment: ago(moment, now))
        return Response(text, media_type="text/html; charset=utf-8", headers=HEADERS)

    async def css() -> Response:
        return Response(style, media_type="text/css; charset=utf-8", headers=HEADERS)

    async def to_page() -> Response:
        return RedirectResponse("/admin", headers=HEADERS)

    for path in ("/", "/admin/"):
        app.add_api_route(path, to_page, methods=["GET"], include_in_schema=False)
    app.add_api_route("/admin", page, methods=["GET"], include_in_schema=False)
    app.add_api_route("/admin/console.css", css, methods=["GET"], include_in_schema=False)
