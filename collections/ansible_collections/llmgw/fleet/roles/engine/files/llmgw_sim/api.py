# SPDX-License-Identifier: Apache-2.0
"""The paths of the simulator: OpenAI's, vLLM's own, and /sim for tests."""

from __future__ import annotations

import asyncio
import base64
import collections
import hashlib
import hmac
import json
import os
import struct
import time
import uuid
from dataclasses import asdict, dataclass
from typing import Any, Awaitable, Callable

from llmgw_sim import VERSION, answers
from llmgw_sim.engine import Engine
from llmgw_sim.faults import Faults, parse_faults
from llmgw_sim.web import ApiError, Connection, Request, bad_request, server_error

Handler = Callable[[Request, Connection], Awaitable[None]]
REMEMBERED_REQUESTS = 256
SECRET_HEADERS = ("authorization", "x-api-key")


@dataclass(frozen=True)
class Serving:
    """What is served, and to whom. The first of `names` is the one in answers and metrics."""

    names: list[str]
    max_model_len: int
    api_keys: list[str]
    with_faults: bool


class Api:
    """Answers requests from the engine; knows which are in flight, and refuses new ones once `draining`."""

    def __init__(self, engine: Engine, serving: Serving) -> None:
        self.draining = False
        self.in_flight: set[asyncio.Task[Any]] = set()
        self._engine = engine
        self._serving = serving
        self._faults = Faults()
        self._request_ids: collections.deque[str | None] = collections.deque(maxlen=REMEMBERED_REQUESTS)
        self._requests = 0
        self._last_headers: dict[str, str] = {}
        self._started = int(time.time())
        self._model_paths: dict[str, Callable[[dict[str, Any], Connection], Awaitable[None]]] = {
            "/v1/chat/completions": self._chat,
            "/v1/completions": self._completion,
            "/v1/embeddings": self._embeddings,
            "/tokenize": self._tokenize,
        }
        self._paths: dict[tuple[str, str], Handler] = {
            ("GET", "/health"): self._health,
            ("GET", "/version"): self._version,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/v1/models"): self._models,
            **{("POST", path): self._for_model for path in self._model_paths},
        }
        if serving.with_faults:
            self._paths["GET", "/sim/state"] = self._state
            self._paths["POST", "/sim/faults"] = self._set_faults

    async def handle(self, request: Request, connection: Connection) -> None:
        """Answers one request. Raises ApiError for what is refused."""
        handler = self._paths.get((request.method, request.path))
        if handler is None:
            known = request.path in {path for method, path in self._paths}
            connection.reply_json({"detail": "Method Not Allowed" if known else "Not Found"}, 405 if known else 404)
        elif request.path.startswith("/v1/") and not self._authorised(request):
            connection.reply_json({"error": "Unauthorized"}, 401)
        else:
            await handler(request, connection)

    def _authorised(self, request: Request) -> bool:
        """Like vLLM, only paths under /v1 ask for the key."""
        given = request.headers.get("authorization", "").encode()
        keys = self._serving.api_keys
        return not keys or any(hmac.compare_digest(given, f"Bearer {key}".encode()) for key in keys)

    # --- about the engine ---------------------------------------------------------------------------------------------

    async def _health(self, _request: Request, connection: Connection) -> None:
        await asyncio.sleep(self._faults.slow_health_s)
        connection.reply(self._faults.health_status, b"")

    async def _version(self, _request: Request, connection: Connection) -> None:
        connection.reply_json({"version": f"{VERSION}+simulator"})

    async def _metrics(self, _request: Request, connection: Connection) -> None:
        text = self._engine.exposition(self._serving.names[0])
        connection.reply(200, text.encode(), "text/plain; version=0.0.4; charset=utf-8")

    async def _models(self, _request: Request, connection: Connection) -> None:
        about = {"object": "model", "created": self._started, "owned_by": "llmgw-sim"}
        length = self._serving.max_model_len
        models = [{"id": name, **about, "max_model_len": length} for name in self._serving.names]
        connection.reply_json({"object": "list", "data": models})

    # --- for tests ----------------------------------------------------------------------------------------------------

    async def _state(self, _request: Request, connection: Connection) -> None:
        finished = self._engine.metrics.finished
        connection.reply_json(
            {
                "requests": self._requests,
                "request_ids": list(self._request_ids),
                "last_headers": self._last_headers,
                "running": self._engine.running,
                "waiting": self._engine.waiting,
                "aborted": finished["abort"],
                "finished": finished["stop"] + finished["length"],
                "generated_tokens": self._engine.metrics.generation_tokens,
                "draining": self.draining,
                "faults": asdict(self._faults),
            }
        )

    async def _set_faults(self, request: Request, connection: Connection) -> None:
        self._faults = parse_faults(_json(request))
        self._engine.hang(self._faults.hang)
        connection.reply_json(asdict(self._faults))
        if self._faults.die:
            # Once the answer has left; as hard as an engine that is killed.
            asyncio.get_running_loop().call_later(0.02, os._exit, self._faults.exit_code)

    # --- inference ----------------------------------------------------------------------------------------------------

    async def _for_model(self, request: Request, connection: Connection) -> None:
        """What all requests that name a model have in common."""
        self._remember(request)
        if self.draining:
            raise server_error("EngineCore is shutting down and takes no new requests.")
        if self._faults.fail_status is not None and self._faults.count != 0:
            if self._faults.count is not None:
                self._faults.count -= 1
            raise ApiError(self._faults.fail_status, "A fault asked for by POST /sim/faults.", "SimulatedError")
        body = _json(request)
        if not isinstance(body, dict):
            raise bad_request("the body must be a JSON object")
        name = body.get("model")
        if name not in (None, *self._serving.names):
            raise ApiError(404, f"The model `{name}` does not exist.", "NotFoundError", "model")
        task = asyncio.current_task()
        assert task  # noqa: S101 - a coroutine always runs in one
        self.in_flight.add(task)
        try:
            await self._model_paths[request.path](body, connection)
        finally:
            self.in_flight.discard(task)

    def _remember(self, request: Request) -> None:
        """Keeps what tests ask about; keys as digests only."""
        self._requests += 1
        self._request_ids.append(request.headers.get("x-request-id"))
        self._last_headers = {
            name: f"sha256:{hashlib.sha256(value.encode()).hexdigest()}" if name in SECRET_HEADERS else value
            for name, value in request.headers.items()
        }

    async def _chat(self, body: dict[str, Any], connection: Connection) -> None:
        await self._generate(body, answers.chat_tokens(body.get("messages")), connection, chat=True)

    async def _completion(self, body: dict[str, Any], connection: Connection) -> None:
        prompt = body.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1 and not answers.is_number(prompt[0]):
            prompt = prompt[0]
        await self._generate(body, answers.prompt_tokens(prompt, "prompt"), connection, chat=False)

    async def _generate(self, body: dict[str, Any], prompt: list[str], connection: Connection, *, chat: bool) -> None:
        ident = f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"
        generation = answers.Generation.of(body, chat, ident, int(time.time()), self._serving.names[0])
        if len(prompt) + generation.count > self._serving.max_model_len:
            raise bad_request(
                f"This model's maximum context length is {self._serving.max_model_len} tokens. However, you requested "
                f"{generation.count} output tokens and your prompt contains {len(prompt)} input tokens.",
                "max_tokens",
            )
        said: list[str] = []
        stream = bool(body.get("stream"))

        def emit(index: int) -> None:
            self._break_at(index, connection)
            said.append(answers.word(prompt, index))
            if stream:
                if index == 0 and chat:
                    connection.event(generation.first_chunk())
                connection.event(generation.token_chunk(said[-1]))

        if stream:
            connection.start_events()
        cached = await self._engine.generate(prompt, generation.count, generation.reason, emit)
        used = answers.usage(len(prompt), generation.count, cached)
        if not stream:
            connection.reply_json(generation.whole("".join(said), used))
            return
        connection.event(generation.last_chunk())
        if (body.get("stream_options") or {}).get("include_usage"):
            connection.event(generation.usage_chunk(used))
        connection.end_events()

    def _break_at(self, index: int, connection: Connection) -> None:
        """Carries out the faults that strike before token `index`."""
        if index == self._faults.disconnect_after_chunks:
            connection.break_off()
            raise asyncio.CancelledError
        if index == self._faults.error_after_chunks:
            raise server_error("A fault asked for by POST /sim/faults.")

    async def _embeddings(self, body: dict[str, Any], connection: Connection) -> None:
        given = body.get("input")
        if not isinstance(given, list) or all(answers.is_number(item) for item in given):
            given = [given]
        texts = [answers.prompt_tokens(item, "input") for item in given]
        size = body.get("dimensions") or answers.EMBEDDING_SIZE
        if not answers.is_number(size) or not 1 <= size <= 4096:  # noqa: PLR2004 - larger than any model's
            raise bad_request("dimensions must be between 1 and 4096", "dimensions")
        packed = body.get("encoding_format") == "base64"
        data = []
        for index, text in enumerate(texts):
            await self._engine.generate(text, 1, "stop", lambda _index: None)
            values = answers.vector(text, size)
            coded = base64.b64encode(struct.pack(f"<{size}f", *values)).decode() if packed else values
            data.append({"object": "embedding", "index": index, "embedding": coded})
        used = answers.usage(sum(map(len, texts)), 0, 0)
        connection.reply_json({"object": "list", "model": self._serving.names[0], "data": data, "usage": used})

    async def _tokenize(self, body: dict[str, Any], connection: Connection) -> None:
        found = (
            answers.chat_tokens(body["messages"])
            if "messages" in body
            else answers.prompt_tokens(body.get("prompt"), "prompt")
        )
        numbers = list(map(answers.token_id, found))
        connection.reply_json({"count": len(numbers), "max_model_len": self._serving.max_model_len, "tokens": numbers})


def _json(request: Request) -> object:
    try:
        return json.loads(request.body)
    except ValueError as error:
        raise bad_request(f"Invalid JSON: {error}") from None
