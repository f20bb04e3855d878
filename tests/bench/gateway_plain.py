# SPDX-License-Identifier: Apache-2.0
"""What the gateway is measured beside, on the same server with the same settings.

    gateway_plain.py floor|proxy PORT UPSTREAM_PORT

`floor` answers by itself: what uvicorn alone costs. `proxy` is the proxy that one would write first: FastAPI and httpx.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from tests.bench.gateway_engine import ANSWER, CHUNKS, EVENT, GAP_S, LAST

HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]
EVENTS = [(b"content-type", b"text/event-stream")]


async def floor(_scope: dict[str, Any], receive: Any, send: Any) -> None:
    """A raw ASGI application that reads the body and writes the engine's answers from memory."""
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if b'"stream": true' not in body:
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": ANSWER, "more_body": False})
        return
    await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
    for _number in range(CHUNKS):
        await asyncio.sleep(GAP_S)
        await send({"type": "http.response.body", "body": EVENT, "more_body": True})
    await send({"type": "http.response.body", "body": LAST, "more_body": False})


def proxy(upstream: str) -> FastAPI:
    """FastAPI in front, httpx behind."""
    app = FastAPI()
    client = httpx.AsyncClient(base_url=upstream, timeout=60, limits=httpx.Limits(max_connections=1000))

    async def pass_on(request: Request) -> StreamingResponse:
        body = await request.body()
        asked = client.build_request(
            "POST", request.url.path, content=body, headers={"content-type": "application/json"}
        )
        answer = await client.send(asked, stream=True)

        async def relay() -> AsyncIterator[bytes]:
            async for data in answer.aiter_raw():
                yield data
            await answer.aclose()

        return StreamingResponse(relay(), answer.status_code, {"content-type": answer.headers["content-type"]})

    app.add_api_route("/v1/chat/completions", pass_on, methods=["POST"], response_model=None)
    return app


def main() -> None:
    """Serves until killed."""
    kind, port, upstream = sys.argv[1:]
    app: Any = floor if kind == "floor" else proxy(f"http://127.0.0.1:{upstream}")
    uvicorn.run(
        app,
        port=int(port),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=2048,
    )


if __name__ == "__main__":
    main()
